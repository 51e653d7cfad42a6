//! What the algorithms of sites say to each other.
