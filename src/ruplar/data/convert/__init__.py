"""A dataset with prose reasoning → question, chain, answer: by rules, or by a language model behind an endpoint.

source –prose→ Prose –rules | endpoint→ chain –verify→ accepted, or rejected with a reason –journal→ OUTPUT
"""
