"""A function of one sample compiled for whole batches, as machine code of a processor or as a kernel of a GPU."""
