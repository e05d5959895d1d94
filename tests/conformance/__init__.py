"""Conformance vectors: what every device, in whatever language, computes of the same words, rows and messages.

`python -m tests.conformance` writes the JSON files of this folder anew, `make` says what they hold; tests read them.

* noise.json: random words (base64url of little-endian 32-bit words) → rounded normal numbers, and how many words.
* reports.json: plan, state, token and row → place of the token, row in internal units, integers before noise (one step
  more or less is right where `exact` is false, since `exp`, `log` and `pow` differ in their last bits), and, of these
  words, the body that is posted.
* envelopes.json: envelopes, the key that must have signed, whether a device accepts signature and payload.
* shares.json: plan and state of two collectors, and a row → whole numbers (as above where `exact` is false) and, of
  these words, what the first collector gets; the second gets the words. With the token, what both are bound to.
* seals.json: a one-time secret key with its public one, a collector's public key, what the message is bound to, the
  message → the sealed message.
"""
