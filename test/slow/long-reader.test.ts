import {statSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {walSizeLimit} from '../../src/store/engine/sqlite.ts';
import {openStore} from '../../src/store/store.ts';
import {logged, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const megabyte = 1024 * 1024;

test('shows that the write-ahead log grows while another program reads, and empties it afterwards', async t => {
	const program = await prepareProgram(t, {MAILCTL_DELIVERY: 'capture'});
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const file = join(program.folder, 'data/mailctl.db');
	const walBytes = () => statSync(`${file}-wal`).size;
	const metric = async () => {
		const [, value] =
			/^mailctl_store_wal_bytes (\S+)$/m.exec(await (await fetch(`${daemon.url}/metrics`)).text()) ?? [];
		return Number(value);
	};
	const logCheck = async () => {
		const {stdout} = await program.run('doctor', '--json');
		return (JSON.parse(stdout) as Array<Record<string, string>>).find(({check}) => check === 'store-log');
	};
	const before = walBytes();
	const shown = await metric();
	t.true(shown >= before && shown <= walBytes(), `${before} ${shown}`);
	t.like(await logCheck(), {status: 'ok'});

	const other = await openStore({file});
	t.teardown(() => other.close());
	await other.database.raw('begin');
	await other.database('messages').count();
	const {reader: third} = other;
	await third.raw('create table scratch (content blob)');
	await third.raw('insert into scratch values (zeroblob(?))', [80 * megabyte]);
	await third.raw('drop table scratch');
	t.true(walBytes() > 80 * megabyte);
	const [said] = await logged(program, 'wal_large');
	// It may have looked while the log was being written.
	t.true(Number(said?.bytes) > walSizeLimit);
	t.true((await metric()) > 80 * megabyte);
	t.like(await logCheck(), {status: 'warn'});
	const sent = await call(`${daemon.url}/v1/messages`, key, {from, to: 'you@example.org', templateId});
	t.is(sent.status, 202);
	await waitFor('it is ready', async () => (await fetch(`${daemon.url}/readyz`)).ok);

	await other.database.raw('commit');
	await waitFor('it is emptied', () => walBytes() < megabyte);
	t.is((await logged(program, 'wal_emptied')).length, 1);
	t.like(await logCheck(), {status: 'ok'});
	t.is(await daemon.stop(), 0);
});
