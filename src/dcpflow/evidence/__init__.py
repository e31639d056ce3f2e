"""From records to tables, from tables to gates, and the checks that say what the records show."""
