//! SOAP faults for PlayReady clients, which do not read JSON.
//!
//! The HTTP status stays that of the API. A SOAP 1.1 server would always return 500, but a refusal is not a
//! server failure, and clients read the fault.

use std::fmt::Write as _;

use crate::errors::api_error::ApiError;
use playgate_types::html_escape::escape;

/// SOAP 1.1 header that names the operation.
pub(crate) const ACTION: &str = "soapaction";

/// PlayReady code for a refusal (`DRM_E_SERVER_SERVICE_SPECIFIC`).
const REFUSAL: &str = "0x8004C604";
/// PlayReady code for a failure, which devices retry (`DRM_E_SERVER_INTERNAL_ERROR`).
const FAILURE: &str = "0x8004C600";

/// Builds the fault. `text` is for the viewer. The error code goes into the custom data, which clients pass
/// to their application.
pub(crate) fn fault(error: &ApiError, text: &str) -> String {
    let status = error.code().status();
    let (party, number) = match status.is_server_error() {
        true => ("Server", FAILURE),
        false => ("Client", REFUSAL),
    };
    let mut body = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
         <soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\
         <soap:Body><soap:Fault>",
    );
    // Writing to a `String` cannot fail.
    let _ = write!(body, "<faultcode>soap:{party}</faultcode><faultstring>");
    escape(text, &mut body);
    let _ = write!(
        body,
        "</faultstring><detail><Exception><StatusCode>{number}</StatusCode>\
         <CustomData>{}</CustomData></Exception></detail></soap:Fault></soap:Body></soap:Envelope>",
        error.code().as_str()
    );
    body
}
