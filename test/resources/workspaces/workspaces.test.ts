import test from 'ava';
import {
	changeWorkspace,
	createWorkspace,
	pauseByInstallation,
	resumeByInstallation,
} from '../../../src/resources/workspaces/rules.ts';
import {findWorkspaceByName, listWorkspaces} from '../../../src/resources/workspaces/store.ts';
import {readGeneration} from '../../../src/store/changes.ts';
import {sqliteTest} from '../../helpers/databases.ts';
import {testTools} from '../../helpers/tools.ts';

sqliteTest(test, 'creates a workspace once per name and lists the newest first', async (t, store) => {
	const tools = testTools();
	const create = (name: string) => store.writer.transaction(trx => createWorkspace(trx, tools, {name}));
	const before = await readGeneration(store.reader);
	const first = await create('acme');
	t.like(first, {name: 'acme', locale: null, monthly_quota: null, paused_at: null});
	t.is(await create('acme'), undefined);
	const second = await create('other');
	t.deepEqual(
		(await listWorkspaces(store.reader)).map(({id}) => id),
		[second?.id, first?.id],
	);
	t.deepEqual(await findWorkspaceByName(store.reader, 'acme'), first);
	t.true((await readGeneration(store.reader)) > before, 'a daemon must notice');
});

sqliteTest(test, 'changes and resets settings of a workspace, but refuses a name in use', async (t, store) => {
	const tools = testTools();
	const [id, other] = await store.writer.transaction(async trx => [
		(await createWorkspace(trx, tools, {name: 'acme', locale: 'de', track_opens: true}))?.id as string,
		(await createWorkspace(trx, tools, {name: 'other'}))?.id as string,
	]);
	const change = (input: Parameters<typeof changeWorkspace>[3]) =>
		store.writer.transaction(trx => changeWorkspace(trx, tools, id as string, input));
	t.like(await change({monthly_quota: 5, queue_lifetime: 3600, timezone: 'Europe/Vienna'}), {
		monthly_quota: 5,
		queue_lifetime_s: 3600,
		timezone: 'Europe/Vienna',
		locale: 'de',
		track_opens_at: '2026-06-09T10:00:00.000Z',
	});
	t.like(await change({monthly_quota: null, locale: null, track_opens: false, track_clicks: true}), {
		monthly_quota: null,
		locale: null,
		track_opens_at: null,
		track_clicks_at: '2026-06-09T10:00:00.000Z',
	});
	t.is(await change({name: 'other'}), undefined);
	t.like(await change({name: 'acme'}), {id, name: 'acme'});
	t.like(await findWorkspaceByName(store.reader, 'other'), {id: other, monthly_quota: null});
});

sqliteTest(test, 'pausing again keeps the time but takes the new reason; resume ends the pause', async (t, store) => {
	const tools = testTools();
	const write = store.writer.transaction;
	const made = await write(trx => createWorkspace(trx, tools, {name: 'acme'}));
	const paused = await write(trx => pauseByInstallation(trx, tools, made as NonNullable<typeof made>, 'review'));
	t.like(paused, {paused_at: '2026-06-09T10:00:00.000Z', pause_reason: 'review'});
	tools.advance(60_000);
	const again = await write(trx => pauseByInstallation(trx, tools, paused, 'abuse'));
	t.like(again, {paused_at: '2026-06-09T10:00:00.000Z', pause_reason: 'abuse'});
	t.like(await write(trx => resumeByInstallation(trx, tools, paused.id)), {paused_at: null, pause_reason: null});
});
