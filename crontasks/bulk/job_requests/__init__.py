"""Job requests of people, made into the parameters of the job."""
