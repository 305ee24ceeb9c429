//! Combines several results of one request and reports all their errors, so that a developer, or a user who
//! fills in a form, sees every mistake at once.

use crate::http::errors::api_error::ApiError;

pub(crate) trait CombineResults {
    type Values;

    fn combine(self) -> Result<Self::Values, ApiError>;
}

macro_rules! combine {
    ($($value:ident)+) => {
        impl<$($value),+> CombineResults for ($(Result<$value, ApiError>,)+) {
            type Values = ($($value,)+);

            #[expect(non_snake_case, reason = "each value has the name of its type")]
            fn combine(self) -> Result<Self::Values, ApiError> {
                match self {
                    ($(Ok($value),)+) => Ok(($($value,)+)),
                    ($($value,)+) => Err(joined([$($value.err()),+])),
                }
            }
        }
    };
}

combine!(A B);
combine!(A B C);
combine!(A B C D);
combine!(A B C D E);
combine!(A B C D E F);
combine!(A B C D E F G);
combine!(A B C D E F G H);
combine!(A B C D E F G H I);

fn joined<const N: usize>(errors: [Option<ApiError>; N]) -> ApiError {
    errors
        .into_iter()
        .flatten()
        .reduce(ApiError::and)
        .unwrap_or_else(|| ApiError::internal("several results without an error"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::errors::api_error::ErrorCode;

    #[test]
    fn field_errors_are_merged_and_precede_not_found() {
        let field = |name| Err::<(), _>(ApiError::field(name, "is missing"));
        let unknown = || Err::<(), _>(ApiError::new(ErrorCode::SessionNotFound, "no such session"));
        assert_eq!((Ok(1), Ok("a")).combine().unwrap(), (1, "a"));
        let error = (unknown(), field("a"), Ok(1), field("b"), field("a")).combine();
        let error = error.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
        assert_eq!(error.message(), "a: is missing");
        let problem = |name| json!({"field": name, "message": "is missing"});
        assert_eq!(
            serde_json::to_value(error.details()).unwrap(),
            json!({"field": "a", "problems": [problem("a"), problem("b")]})
        );
        let error = (unknown(), Ok(())).combine().unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionNotFound);
    }
}
