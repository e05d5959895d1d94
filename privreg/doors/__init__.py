"""Front doors: `regression` describes a model from a formula or arrays, `loading` reads saved results."""
