"""The throttle: how many batch requests a pool may have in flight, as pure functions of a reading.

`readings` what is seen · `values` settings, bounds, state, decision · `policies` one law a file ·
`decide` the guard around every law · `samples` how one request becomes a miss or not.
"""
