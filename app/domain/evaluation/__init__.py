"""What an evaluation run says: figures with intervals, two runs compared, when to say nothing."""
