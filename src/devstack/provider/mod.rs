//! The provider model: answers like Resend, keeps its key rule, and can be told to fail.
