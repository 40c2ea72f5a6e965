//! Every transition as one pure function of state, time and command.
