"""What people say of a job, made into the parameters of the job."""
