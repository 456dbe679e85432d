"""The auditor: proves or refutes, from the ledger alone, that nothing went wrong."""
