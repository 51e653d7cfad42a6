//! The one path of a request, whichever door it came through.
