//! STUN messages (RFC 8489): bytes to message and back.
