// Placeholder until the kernels come.
