"""Circuits in the database: reading them, and changing one under its row lock."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from ..models import Circuit
from .circuits import CircuitState, dump_probes, load_probes
from .columns import CIRCUIT, names
from .contract import CircuitAct, CircuitReport, CircuitRow
from .fleet import FleetStatements

_COLUMNS = ("type", "state", "failures", "window_started_at", "opened_at", "open_until", "probes", "probe_successes",
            "forced")  # fmt: skip


class CircuitStatements(FleetStatements):
    """Shared circuits. Rows are always locked in the order of their types."""

    def circuits(self) -> list[CircuitRow]:
        where = f"state <> {Circuit.CLOSED} OR failures > 0"
        return [state.row(now) for state, now in self._single(lambda: self._read_circuits(where, []))]

    def report_circuits(self, reports: Sequence[CircuitReport]) -> list[CircuitRow]:
        reports = sorted(reports, key=lambda report: report.type)
        return self._unit(lambda: self._report_circuits(reports)) if reports else []

    def _report_circuits(self, reports: Sequence[CircuitReport]) -> list[CircuitRow]:
        rows = []
        quiet = {report.type for report in reports if not report.failures and not report.probes}
        for report in reports:
            found = self._circuit(report.type, lock=report.type not in quiet)
            if found is None and report.failures:
                self._create_circuit(report.type)
                found = self._circuit(report.type, lock=True)
            if found is None:
                continue
            state, now = found
            if state.apply(report, now):
                if report.type in quiet:
                    # Read without a lock, as nearly always nothing changes: once more, now that something does.
                    state, now = self._circuit(report.type, lock=True) or (state, now)
                    state.apply(report, now)
                self._write_circuit(state)
            rows.append(state.row(now))
        return rows

    def set_circuit(self, type_key: str, act: CircuitAct, by: str | None) -> bool:
        return self._unit(lambda: self._set_circuit(type_key, act, by))

    def _set_circuit(self, type_key: str, act: CircuitAct, by: str | None) -> bool:
        found = self._circuit(type_key, lock=True)
        if found is None and act is CircuitAct.OPEN:
            self._create_circuit(type_key)
            found = self._circuit(type_key, lock=True)
        if found is None:
            return False
        state, now = found
        if not state.force(act, now):
            return False
        self._write_circuit(state)
        self._execute(
            f"UPDATE {CIRCUIT} SET forced = %s, updated_by = %s WHERE type = %s", [state.forced, by, state.type]
        )
        return True

    def _circuit(self, type_key: str, *, lock: bool) -> tuple[CircuitState, dt.datetime] | None:
        found = self._read_circuits(*self._among("type", [type_key]), lock=self.LOCK if lock else "",
                                    hint=self.HINT if lock else "")  # fmt: skip
        return found[0] if found else None

    def _read_circuits(
        self, where: str, params: Sequence[object], *, lock: str = "", hint: str = ""
    ) -> list[tuple[CircuitState, dt.datetime]]:
        """Circuits in the order of their types, each with the server's now."""
        table = self._by_key(CIRCUIT) if lock else CIRCUIT
        sql = f"SELECT {names(_COLUMNS)}, {self.NOW} FROM {table} {hint} WHERE {where} ORDER BY type {lock}"
        found = []
        for row in self._query(sql, params):
            window, opened, until, now = (self._read_instant(value) for value in (row[3], row[4], row[5], row[9]))
            assert now is not None  # noqa: S101 - the clock has a value
            state = CircuitState(
                row[0], row[1], row[2], window, opened, until, load_probes(row[6]), row[7], bool(row[8])
            )
            found.append((state, now))
        return found

    def _create_circuit(self, type_key: str) -> None:
        columns = ("type", "state", "failures", "probes", "probe_successes", "forced", "updated_at")
        params = [type_key, Circuit.CLOSED, 0, "[]", 0, False]
        self._insert_unless_there(CIRCUIT, columns, f"{', '.join(['%s'] * len(params))}, {self.NOW}", params)

    def _write_circuit(self, state: CircuitState) -> None:
        self._execute(
            f"UPDATE {CIRCUIT} SET state = %s, failures = %s, window_started_at = %s, opened_at = %s, open_until = %s, "
            f"probes = %s, probe_successes = %s, updated_at = {self.NOW} WHERE type = %s",
            [state.state, state.failures, self._instant(state.window_started_at), self._instant(state.opened_at),
             self._instant(state.open_until), dump_probes(state.probes), state.probe_successes, state.type],
        )  # fmt: skip
