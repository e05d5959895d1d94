"""Questions to estimates whose covariance is known: tests of coefficients, terms and levels, and effects."""

from __future__ import annotations

from typing import Any

import pandas as pd

from privreg.errors import flag
from privreg.results.base import Results
from privreg.results.data import ResultData
from privreg.results.postestimation.hypothesis import ContrastTest, WaldTest, contrast_test, wald_test
from privreg.results.postestimation.levels import PairwiseTests, pairwise, reference_grid
from privreg.results.postestimation.selection import Selection, select
from privreg.results.postestimation.smooth import Smooth, smooth
from privreg.results.postestimation.terms import TermTests, term_tests


class TestedResults(Results):
    """Results that can be tested; `method` is said of `PrivateResults`."""

    _fit: ResultData

    def t_test(self, r_matrix: Any, *, method: str | None = None) -> ContrastTest:
        """Test linear combinations one by one.

        Parameters
        ----------
        r_matrix : str, array of shape (q, p), or (array, values)
            As in statsmodels: ``"age = bmi"`` or ``"age - bmi, smoker[T.yes] = 0"``. Coefficients of a multinomial
            fit are called "level:term", as in ``"mid:age = high:age"``; in an array they come level by level. The name
            of a term, such as "C(region)" or "region", stands for all its coefficients, and so do several such names,
            ``"smoker, region"`` or a list.
        method : str, optional

        Returns
        -------
        ContrastTest
            effect, sd, tvalue, pvalue of shape (q,), conf_int(alpha), summary_frame(); both take simultaneous=True.

        Raises
        ------
        FormulaError
            If the string can't be read; names that begin with an operator or a bracket need the array.
        OptionError
            If the array doesn't fit.
        """
        return contrast_test(self._known(method, "t_test"), r_matrix)

    def wald_test(self, r_matrix: Any, *, method: str | None = None) -> WaldTest:
        """Test linear restrictions jointly, exactly for the method's limit distribution.

        Parameters
        ----------
        r_matrix
            As in :meth:`t_test`.
        method : str, optional

        Returns
        -------
        WaldTest
            statistic (formed with :meth:`cov_params`), pvalue, df_num, fvalue, df_denom, and ``citation`` as reports
            have it.

        Raises
        ------
        FormulaError, OptionError
            As for :meth:`t_test`.
        InferenceError
            If restrictions are redundant, or the method has had too few updates for so many (random scaling).
        """
        return wald_test(self._known(method, "wald_test"), r_matrix)

    def wald_test_terms(self, *, skip_single: bool = False, method: str | None = None) -> TermTests:
        """Test each term jointly, given all others.

        Parameters
        ----------
        skip_single : bool
            Leave out terms of one coefficient.
        method : str, optional

        Returns
        -------
        TermTests
            ``table`` has a line a term: statistic, pvalue, df_constraint, fvalue, df_denom, reliable. Of a multinomial
            fit a term is tested over all levels of the response together.

        Raises
        ------
        OptionError
            If no term is left.
        """
        return term_tests(self._known(method, "wald_test_terms"), skip_single=flag("skip_single", skip_single))

    def anova(self, *, method: str | None = None) -> pd.DataFrame:
        """Test each term but the intercept, given all others (type III by the Wald test).

        Returns
        -------
        DataFrame
            One line a term, its name as index: df, df_denom, chi2 (the Wald statistic), F, PR(>F), reliable (whether no
            note of the summary takes a coefficient of it back). df_denom is infinite under normal limits, where df × F
            is χ² with df degrees of freedom, and Hotelling's under Student's t; it and F are NaN under distributions
            that are no F, whose p-values are exact all the same.

        Notes
        -----
        There are no sums of squares, which would need every residual. With interactions a test of a main effect
        depends on how factors are coded, as always with type III; `privreg.anova` tests nested fits.
        :meth:`wald_test_terms` has the same tests as a view with ``save("tests.docx")`` and ``to_markdown()``.
        """
        return term_tests(self._known(method, "anova"), skip_single=False).anova()

    def t_test_pairwise(
        self, term_name: str | None = None, method: str = "holm", *, alpha: float = 0.05, inference: str | None = None
    ) -> PairwiseTests:
        """Test the differences between every two levels of a factor, by its coefficients.

        Parameters
        ----------
        term_name : str, optional
            The factor's column or term: "region" or "C(region)"; of a model with one factor it may be left out.
        method : str
            How p-values are adjusted for the number of differences, as in statsmodels' `multipletests`: "holm"
            (default), "bonferroni", "sidak", "holm-sidak" ("hs"), "simes-hochberg", "hommel", "fdr_bh", "fdr_by",
            "fdr_tsbh" or "fdr_tsbky". Holm's holds whatever the tests have to do with each other.
        alpha : float
            Probability of a false rejection, and one minus the level of the limits.
        inference : str, optional
            An inference method of this fit; its first by default. (It is called method elsewhere.)

        Returns
        -------
        PairwiseTests
            ``result_frame`` as in statsmodels; pvalue, pvalue_adjusted, reject. Differences are later less earlier
            level, in the order of declaration.

        Raises
        ------
        OptionError
            If it is no factor with a term of its own, or there is no such adjustment.
        """
        return pairwise(self._known(inference, "t_test_pairwise"), term_name, method, alpha)

    def reference_grid(self) -> pd.DataFrame:
        """Covariates from what is declared: all combinations of factors' levels, numbers at the middle of their bounds.

        Returns
        -------
        DataFrame
            Public rows for :meth:`predict` and :meth:`design_matrix`. Marginal means are those of the library
            marginaleffects, ``avg_predictions(res.for_marginaleffects(), by="region")``.

        Raises
        ------
        OptionError
            If a number's scale is private, or there are more than 10,000 combinations.
        """
        return reference_grid(self._fit.design)

    def select(self, *, method: str | None = None) -> Selection:
        """Choose terms by the adaptive lasso, from the released estimates and their covariance.

        Returns
        -------
        Selection
            ``kept`` and ``dropped`` terms, ``frame()`` with the smaller model's coefficients, ``plot()`` of the path. A
            factor's columns are kept or dropped together; the intercept stays, and so do the terms that a kept
            interaction is made of.

        Raises
        ------
        InferenceError
            If the method keeps no covariance, or one without an inverse, or there is nothing but an intercept.

        Notes
        -----
        Minimises (b − θ̂)' V⁻¹ (b − θ̂)/2 + λ Σ_g √d_g ‖b_g‖/‖θ̂_g‖ over b, V the covariance and g a term with d_g
        columns, each norm in the term's own standard errors; λ has the least (b − θ̂)' V⁻¹ (b − θ̂) + log(n) times the
        number of coefficients that are kept. Intervals are those of the smaller model as if it had been chosen
        beforehand: they hold where effects are 0 or large, and are too short otherwise.

        References
        ----------
        Wang & Leng (2007), Unified lasso estimation by least squares approximation, JASA 102, 1039-1048; Wang & Leng
        (2008), A note on adaptive group lasso, Computational Statistics & Data Analysis 52, 5277-5286.
        """
        return select(self._known(method, "select"))

    def smooth(self, term: str | None = None, *, method: str | None = None) -> Smooth:
        """Smooth the curve of a spline by a penalty on its roughness, from the released coefficients.

        Parameters
        ----------
        term : str, optional
            The term, or its covariate; needed where there are several.
        method : str, optional

        Returns
        -------
        Smooth
            ``frame()`` and ``plot()`` of the curve over the declared bounds, with pointwise bands; ``edf``.

        Raises
        ------
        OptionError
            If there is no such term.
        InferenceError
            If the method keeps no covariance, or one without an inverse.

        Notes
        -----
        The penalty is λ ∫ f″², with λ of the largest marginal likelihood of θ̂ ~ N(θ, V) under the prior of which it is
        the logarithm (REML). Bands are of that posterior; they hold on average along the curve (Nychka 1988, JASA 83,
        1134-1143).
        """
        return smooth(self._known(method, "smooth"), term)
