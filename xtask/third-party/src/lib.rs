//! Nothing: its list of dependencies is what it is for.
