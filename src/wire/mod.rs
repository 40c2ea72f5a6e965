//! The shapes of the JSON that travels over HTTP.
