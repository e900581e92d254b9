import test from 'ava';
import {ConfigError} from '../../src/config/config-error.ts';
import {checkOpenFiles} from '../../src/daemon/run.ts';

test('exits with 78 for too few open files, warns for few, and says how to raise the limit', t => {
	const warnings: unknown[] = [];
	const check = (limit: number | null) =>
		checkOpenFiles({maxSessions: 64}, {warn: (...told: unknown[]) => void warnings.push(told[1])}, limit);
	const error = t.throws(() => check(127), {instanceOf: ConfigError});
	t.is(error.exitCode, 78);
	t.regex(error.problems[0] ?? '', /127 files.*at least 128: raise it: ulimit -n 576/);
	check(128);
	t.regex(String(warnings), /^At most 128 .* 576 may be needed: raise it: ulimit -n 576, LimitNOFILE=576/);
	for (const limit of [576, Number.POSITIVE_INFINITY, null]) {
		check(limit);
	}
	t.is(warnings.length, 1);
});
