"""What commands are made of; the folder above holds the commands themselves."""
