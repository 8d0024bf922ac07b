//! The secret that a server may ask for.

use std::fmt;

/// What a server that restricts access asks for. Its text is in no message and no log.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A bearer token.
    pub fn new(token: String) -> Self {
        Self(token)
    }

    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_shown() {
        assert_eq!(format!("{:?}", Token::new("secret".to_owned())), "Token");
    }
}
