"""What every fit is made of, and what it says: public values.

`settings` is what is known before the first record, `outcome` what is known after so many.
"""
