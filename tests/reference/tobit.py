"""Tobit regression a second time: the likelihood written out, maximised by scipy."""

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm


def losses(params, x, y, low, high):
    """Minus the log-likelihood of each row; `params` are coefficients and the logarithm of sigma."""
    *theta, log = params
    eta, s = x @ np.array(theta), np.exp(log)
    inside = log - norm.logpdf((y - eta) / s)
    return np.where(y <= low, -norm.logcdf((low - eta) / s), np.where(y >= high, -norm.logsf((high - eta) / s), inside))


def fitted(x, y, low=-np.inf, high=np.inf):
    """Coefficients and sigma, and their standard errors by the sandwich: two arrays of shape (d + 1,)."""
    start = [*np.linalg.lstsq(x, y, rcond=None)[0], np.log(y.std())]
    found = minimize(lambda p: losses(p, x, y, low, high).mean(), start, method="BFGS", options={"gtol": 1e-9}).x
    step, size = 1e-4, len(found)
    ends = [[losses(found + s * step * np.eye(size)[j], x, y, low, high) for s in (1, -1)] for j in range(size)]
    scores = np.array([(up - down) / (2 * step) for up, down in ends])

    def mean(j, k, s, t):
        return losses(found + step * (s * np.eye(size)[j] + t * np.eye(size)[k]), x, y, low, high).mean()

    bread = np.linalg.inv(
        [
            [
                (mean(j, k, 1, 1) - mean(j, k, 1, -1) - mean(j, k, -1, 1) + mean(j, k, -1, -1)) / (4 * step**2)
                for k in range(size)
            ]
            for j in range(size)
        ]
    )
    errors = np.sqrt(np.diag(bread @ (scores @ scores.T) @ bread)) / len(y)
    scale = np.exp(found[-1])
    return np.append(found[:-1], scale), np.append(errors[:-1], errors[-1] * scale)
