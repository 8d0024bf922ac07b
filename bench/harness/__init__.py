"""What bench/compare is made of: processes and their memory, the machine, agreement of results, and the report.

Only the standard library is used here. A process starts with the memory of the one that starts it, so that numpy or torch in
this process would count as memory of both sides.
"""
