"""What people say of a job, made into what the job is told: a module for each job."""
