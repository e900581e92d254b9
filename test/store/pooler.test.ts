import test from 'ava';
import {report} from '../../src/cli/fault.ts';
import {openStore} from '../../src/store/store.ts';
import {engines, newLocation} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {startTransactionPooler} from '../helpers/transaction-pooler.ts';

test('rejects a pooler in transaction mode as misconfigured, and leaves its connection unchanged', async t => {
	if (!engines.includes('postgres')) {
		notRunHere(t, 'no PostgreSQL (npm test starts one)');
		return;
	}
	const location = await newLocation(t, 'postgres');
	const url = new URL('url' in location ? location.url : '');
	const {port, asked} = await startTransactionPooler(t, {host: url.hostname, port: Number(url.port)});
	url.port = String(port);
	const error = await t.throwsAsync(openStore({url: url.href}), {code: 'TRANSACTION_POOLING'});
	const {exitCode, lines} = report(error);
	t.is(exitCode, 78);
	t.regex(lines.join('\n'), /MAILCTL_DATABASE_URL .*pool_mode=session/);
	t.notRegex(asked(), /\b(set|listen|prepare)\b|advisory/i);
	t.regex(asked(), /pg_backend_pid/);
});
