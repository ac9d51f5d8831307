"""The models, their manifest, and what runs TLC on them."""
