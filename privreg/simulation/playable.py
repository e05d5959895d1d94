"""Planning and fitting of a described model in one process: rows to devices, reports to collectors, to results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Never

from privreg.data.sources.open import Source, refuse_few, rows_of
from privreg.errors import DataError, InferenceError, OptionError, UnsupportedArgumentError
from privreg.fits.fit_plan import FitPlan
from privreg.fits.settings import FitOptions, RunOptions
from privreg.fits.target import target_of
from privreg.formula.covariates import public_rows
from privreg.formula.spec import Described, ModelSpec
from privreg.options.progress import progress_bar
from privreg.options.table import check
from privreg.options.unknown import refuse_unknown
from privreg.options.values import read_threads
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER
from privreg.results.results import PrivateResults
from privreg.simulation.streaming.begin import begin
from privreg.simulation.streaming.checkpoint import forget, read_checkpoint, take_all
from privreg.simulation.streaming.stream import Stream
from privreg.simulation.tuning import of_descent, plan_fit, warn_of_steps


class Playable(Described):
    """A model with the ways to plan it, to fit it, and to feed it batch by batch."""

    _spec: ModelSpec
    _source: Source | None
    _rows: int | None
    _dataset: Any
    _results = PrivateResults

    # --- planning --------------------------------------------------------------------------------------

    def plan(
        self,
        rows: int | None = None,
        *,
        tuning: str = "efficient",
        inference: Any = "auto",
        lanes: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        step: float | None = None,
        start_params: Any = None,
        measures: float | None = None,
        rounds: int = 20,
        covariates: Any = None,
        like: Any = None,
        **unknown: Never,
    ) -> FitPlan:
        """Lay a fit's public plan open before anybody reports: declarations, guarantee, mechanism, rounds.

        Parameters
        ----------
        rows : int, optional
            Records expected; as many as the model's data have, or its ``rows=``, by default.
        tuning, inference, lanes, threads, batch_size, alpha, step, start_params, measures, rounds, covariates, like
            As for `fit`.

        Returns
        -------
        FitPlan
            It can be printed, is plain JSON by ``to_dict()``, and is played by `privreg.simulate`. How many people a
            study needs is found by `privreg.plan`.

        Raises
        ------
        OptionError, InferenceError
            If an option is out of range or a method can't do what is asked.
        """
        refuse_unknown("local.start", unknown, "plan")
        expected = self._expected() if rows is None else check("local.formula", "rows", rows)
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like,
        )  # fmt: skip
        asked = self._read(asked, seeded=True)  # which a plan can't know: nothing is refused for it
        return plan_fit(self._spec, asked, start_params, expected)

    def _read(self, asked: FitOptions, *, seeded: bool) -> FitOptions:
        """Options of a fit with public rows and an earlier fit's target read."""
        identity = None if self._source is None else self._source.identity
        public = public_rows(self._spec, asked.covariates, identity)
        return replace(asked, covariates=public, like=target_of(self._spec, asked.like, seeded=seeded))

    # --- fitting ---------------------------------------------------------------------------------------

    def _expected(self) -> int | None:
        """Number of people expected; None if unknown."""
        if self._source is not None and self._source.rows is not None:
            return self._source.rows
        return self._rows if self._rows is not None or self._source is None else self._source.expected()

    def start(
        self,
        *,
        tuning: str = "efficient",
        inference: Any = "auto",
        lanes: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        step: float | None = None,
        start_params: Any = None,
        measures: float | None = None,
        rounds: int = 20,
        covariates: Any = None,
        like: Any = None,
        seed: int | None = None,
        **unknown: Never,
    ) -> Stream:
        """Begin a fit that is fed batch by batch; see `fit` for the options.

        The plan follows `rows`, if it was given to the model, not the data the model may hold.

        Returns
        -------
        Stream
            With ``update(batch)``, ``results()`` at any time and ``save(path)``.

        Raises
        ------
        InferenceError
            For a method that allows one release only (plug_in_central).
        BudgetError
            Under a limit (`privreg.limit_spending`), as a stream has no source to count by but a `dataset`.
        """
        refuse_unknown("local.start", unknown)
        if self._spec.trust == "central":
            raise UnsupportedArgumentError(
                "a curator's fit needs all rows at once, as all of them answer in each round, so it has no start(); "
                "use fit(), or trust='two_collectors' for rows that come as a stream."
            )
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like,
        )  # fmt: skip
        asked = self._read(asked, seeded=seed is not None)
        warn_of_steps(asked, 2)
        stream = self._begin(asked, start_params, seed)
        LEDGER.check(named(None, self._dataset), stream.total_mu)
        return stream

    def _begin(self, asked: FitOptions, start_params: Any, seed: Any, start: Any = None) -> Stream:
        """A stream that is fed batch by batch: a new one, or one to be restored with its `start`, internal units."""
        stream = begin(self._spec, asked, start_params, seed, self._rows, start)
        stream.dataset = self._dataset
        once = [m.name for m in stream._settings.methods if not m.streaming]
        if once:
            raise InferenceError(f"{once[0]} is a single release, not for streams; use fit(), or inference='plug_in'.")
        return stream

    def fit(
        self,
        *,
        tuning: str = "efficient",
        inference: Any = "auto",
        lanes: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        step: float | None = None,
        start_params: Any = None,
        measures: float | None = None,
        rounds: int = 20,
        covariates: Any = None,
        like: Any = None,
        order: str | None = None,
        perturbation: str = "gradient",
        epochs: int | None = None,
        radius: Any = "auto",
        average: float = 0.5,
        seed: int | None = None,
        progress: bool | None = None,
        checkpoint: Any = None,
        checkpoint_rows: int | None = None,
        checkpoint_seconds: float | None = None,
        mended: bool = False,
        checkpoint_trust: Any = None,
        client: Any = None,
        **unknown: Never,
    ) -> PrivateResults:
        """Let every person's device send one randomised report, in one pass, and return the results.

        With ``trust="central"`` there are no devices: rows are read once and held, up to 4 GiB of them, encoded; those
        of more files are read again in each round. All of them answer in every round, and `inference`, `measures`,
        `like`, `threads`, `seed`, `progress` and `checkpoint` are as described here.

        Parameters
        ----------
        tuning : {"efficient", "published"}
            "efficient": some twenty public states, which devices could follow. The first rounds' reports set scales,
            correlations and the residual scale; every main round's state follows what was reported, and the estimate
            comes from all reports of main rounds, carried to one state. "published" pins the sources' settings: one
            averaged chain, Mallows weights, c = 1.345, θ₀ = 0, γ = 0.5 and α = 0.51 (γ = 0.2 and α = 0.501 with
            ``allow_leak=("scale",)``, as in their applications). With ``trust="central"`` it is the noisy descent of
            arXiv 2101.08925, whose options are `perturbation`, `order`, `epochs`, `step`, `radius`, `lanes`, `average`
            and `batch_size`: see `privreg.published.descent.fit`.
        inference : str, tuple of str, or None
            The first is the default of bse, t and p. "auto" is "sandwich" (noise is known, curvature is learned from
            how random groups' reports differ, and its uncertainty is part of the standard error), or "random_scaling"
            with published tuning. Others are "between_lanes" (how far random groups differ, with Student's t),
            "batch_means", "block_bootstrap", "block_bootstrap_t", "anytime", "random_scaling_full", "plug_in" and
            "path_curvature" (the sandwich, but for published tuning), and with ``tuning="published"``
            "plug_in_central"; `privreg.collector.inference.describe` tells what each costs and assumes. None gives
            estimates only.
        lanes : int, optional
            Random groups of each main round, which answer slightly different states: 8, 16 (default), 32 or 64.
        threads : int, optional
            Threads; all processors up to 4 by default on long fits. The result does not depend on it.
        batch_size, alpha, step : optional
            Of ``tuning="published"``: records asked at one iterate (1), and α and γ > 0 of the steps γ (k + i0)^(−α),
            internal units; intervals need α above 1/2. A fit by rounds has no steps; it ignores them with a warning.
        start_params : array_like or mapping, shape (p,), optional
            A *public* guess, user's units. By default the reports on second moments give the first guess; zeros inside
            (the middle of the declared box) with published tuning.
        measures : float, optional
            Share of the records, the last ones, that report how well the fit predicts them instead of a score, in
            (0, 0.5): ``res.fit_measures`` then has a private R², deviance explained, accuracy or the like. Needs a
            known number of people.
        rounds : int
            Public states that are answered, 10 to 100, 20 by default: 3 on second moments
            (fewer where there is less to learn of covariates), 4 of the pilot, and `rounds` − 7 main ones. 10 cost a
            few percent of precision. Rounds on location, where scales are private, and one more on moments, where
            covariates are correlated, come on top. A stream of unknown length has as many as it needs.
        covariates : DataFrame, optional
            *Public* rows, of a census or an earlier study, that look like people's covariates; 20 for each column of
            the design or more, of which 2,048 are used, evenly spaced. Curvature is then computed from them before
            reports tell it, instead of from normal numbers and independent factors, which matters where reports tell
            little of it: with more than 24 coefficients. Neither the model, nor what a person is asked, nor the
            guarantee changes. Columns beside the design's are not read, numbers outside their bounds are clamped, and
            rows with missing values are refused.
        like : PrivateResults or FitPlan, optional
            An earlier fit of the same design (columns, levels, family, bounds), or a plan made with ``like=``: its
            score weights' map of covariates and its Huber threshold c are taken over, and so its estimand. Two fits
            that learn these estimate different numbers where the model is wrong. The map and c are functions of the
            earlier fit's reports, and public; the budget and the rounds stay as they are.
        order : {"random", "position"}, optional
            In which order rows are read. "random" is the default where rows can be addressed: short blocks of rows of
            arrays and DataFrames, and of files, tables and row groups as many as can be held, each read once. The order
            is as secret as the noise. "position" takes rows as they lie, as those of a single CSV file, queries and
            streams always are.
        perturbation, epochs, radius, average : optional
            Of a curator's ``tuning="published"``.
        seed : int, optional
            Reproducible noise, for simulation only: it protects nobody, and the results say so.
        progress : bool, optional
            Progress bar; by default on fits of more than a second at a terminal.
        checkpoint : str or Path, optional
            File in which a long fit is kept on the way, for rows that come from Parquet or CSV files. If the process is
            killed, the same call goes on from there, to the same bits, with the same noise on the same rows; if the
            files have changed it is refused. Ctrl-C ends the batch and keeps the state. The file holds a noise key: it
            is readable by its owner only, stays with the rows, and is removed once there are results.
        checkpoint_rows : int, optional
            Keep it after so many rows at the latest.
        checkpoint_seconds : float, optional
            Keep it after so many seconds at the latest, 30 by default.
        mended : bool
            After an error in the rows, or Ctrl-C: that the files have changed since, but not the rows already read. The
            rest is read with fresh noise.
        checkpoint_trust : str or Path, optional
            To go on with a checkpoint of yours from another machine: a copy of your secret there, see `privreg.load`.
            Continue only what you saved: whoever makes up a checkpoint chooses its noise.
        client : distributed.Client or "local", optional
            Where the parts of the files are worked on: on a Dask cluster's workers, who must see the same files, or on
            this machine's processors, one each. A Dask DataFrame of Parquet files is always fitted so. Workers play
            blocks of rows (row groups of Parquet files) that are dealt to rounds; no bit depends on their number.

        Returns
        -------
        PrivateResults

        Warns
        -----
        ReliabilityWarning
            Once, if rows of the results should not be relied on; it names them and why.

        Notes
        -----
        Unless `order` is random, rows are taken in the order they come, and their order must have nothing to do with
        their values: a file sorted by the response or a covariate biases the estimates. Shuffle first
        (``data.sample(frac=1)``) if it might. Row groups of Parquet files are read at random, but the rows of each
        together.

        Raises
        ------
        OptionError, InferenceError
            If an option is out of range or a method can't do what is asked.
        NotPrivateError
            If `covariates` were fitted privately in this process, or are among the rows to be fitted.
        BudgetError
            If it would exceed the limit that `privreg.limit_spending` has set; nothing is then spent.
        DataError, SchemaError
            If rows can't be used; no message quotes a value.
        SavedFileError, UnsupportedArgumentError
            If the checkpoint is of another fit or of other rows, or the rows are of a kind that can't be kept.
        """
        refuse_unknown("local.fit", unknown)
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like, order=order,
            perturbation=perturbation, epochs=epochs, radius=radius, average=average,
        )  # fmt: skip
        run = RunOptions(
            start_params=start_params, seed=seed, progress=progress, checkpoint=checkpoint,
            checkpoint_rows=checkpoint_rows, checkpoint_seconds=checkpoint_seconds, mended=mended,
            checkpoint_trust=checkpoint_trust, client=client,
        )  # fmt: skip
        if of_descent(self._spec, asked, run):
            from privreg.published.descent import fit  # whose loop is compiled

            return fit(
                self._spec, self._source, perturbation=perturbation, order=order, epochs=epochs, step=step,
                radius=radius, lanes=lanes, average=average, batch_size=batch_size, seed=seed, progress=progress,
            )  # fmt: skip
        curator = self._spec.trust == "central"
        kept = read_checkpoint(run)
        check("local.fit", "progress", progress)
        if self._source is None:
            way = "build it with data" if curator else "use start() and update(batch), or build it with data"
            raise DataError(f"this model has no data; {way}.")
        source, rows = self._source, self._expected()
        if rows is None and self._spec.trust == "two_collectors" and source.repeatable:
            read = sum(map(rows_of, source.batches(0)))  # which says what is wrong, if they can't be read
            rows = read if self._spec.people.k_max is None or not read else None
        refuse_few(rows, len(self._spec.design.names), source.kind)
        if kept is not None and self._spec.people.k_max is not None and not curator:
            raise UnsupportedArgumentError(
                "checkpoint= doesn't go with k_max=: who came, and the rows of whoever is being read, are never "
                "stored; leave it out."
            )
        asked = self._read(asked, seeded=seed is not None)
        if not curator:
            warn_of_steps(asked, 2)
        if client is not None and self._spec.summed:
            raise UnsupportedArgumentError(
                f"client= is for trust='local': with {self._spec.holders} sums are made in this process, which reads "
                "the files of Dask DataFrames, too; leave it out."
            )
        if curator and mended:
            raise UnsupportedArgumentError(
                "mended= is of rows that are read once, and a curator's are read anew; remove the checkpoint to begin "
                "anew, which is another release."
            )
        here = self._spec.people.gathered or self._spec.clusters > 0
        if client is not None and here:
            raise UnsupportedArgumentError(
                "client= doesn't go with k_max=, weights= or cluster=: a person's rows may be in several parts of "
                "the files, which are read in this process; leave it out."
            )
        if client is not None or (source.parts and self._spec.trust == "local" and not here):
            if kept is not None:
                raise OptionError(
                    "checkpoint= is for one stream; a cluster works lost parts again by itself: leave it out."
                )
            from privreg.simulation.workers import dask

            res = dask.fit(self._spec, source, asked, start_params, seed, progress, client)
            res._caution()
            return res
        stream = begin(self._spec, asked, start_params, seed, rows)
        with progress_bar(rows, progress) as bar:
            take_all(stream, source, read_threads(threads, rows, parallel=stream.parallel), bar, kept)
        refuse_few(stream.rows_read, 0, source.kind)
        res = stream._results()
        forget(kept)
        res._caution()
        return res
