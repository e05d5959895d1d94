"""Sample size and power before there are data: `power` asks, `plan` answers, `check` tries it by fits."""
