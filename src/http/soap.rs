//! Refusals as PlayReady clients read them: a client that asks by SOAP, as the native ones do, knows
//! no JSON.
//!
//! Decision: the status stays that of the interface, where a SOAP 1.1 server would always say 500: a
//! refusal is no failure of ours, and clients look at the fault.

use std::fmt::Write as _;

use super::error::ApiError;
use crate::types::html_escape::escape;

/// The header of SOAP 1.1 that says what is asked for.
pub(super) const ACTION: &str = "soapaction";

/// What PlayReady calls a refusal for the service's own reasons (`DRM_E_SERVER_SERVICE_SPECIFIC`).
const OUR_REASONS: &str = "0x8004C604";
/// What it calls a failure, after which a device tries again (`DRM_E_SERVER_INTERNAL_ERROR`).
const FAILURE: &str = "0x8004C600";

/// The fault of an error; `text` is meant for the viewer. The code stands in the custom data, which
/// clients hand to their application.
pub(super) fn fault(error: &ApiError, text: &str) -> String {
    let status = error.code().status();
    let (party, number) = match status.is_server_error() {
        true => ("Server", FAILURE),
        false => ("Client", OUR_REASONS),
    };
    let mut body = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
         <soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\
         <soap:Body><soap:Fault>",
    );
    // Writing to a text cannot fail.
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
