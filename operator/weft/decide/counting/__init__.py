"""How many replicas each pool shall have, and how many of them are paid for.

`counts`: how many each pool shall have. `need`: how many its traffic needs now. `worth`: what replicas of an earlier
    shape count for.
`accounts`: what is left of quotas. `budgets`: whom they pay for. `rounds`: the fair share. `frozen`: where `maxGPUs`
    pays for no other.
"""
