import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {storeTime} from '../../../src/kit/time.ts';
import {openStore} from '../../../src/store/store.ts';
import {golden, newCli, refused} from '../../helpers/cli.ts';
import {prepareProgram} from '../../helpers/daemon.ts';
import {insertMessages, insertWorkspace} from '../../helpers/messages.ts';
import {startOnTerminal} from '../../helpers/terminal.ts';
import {clearOfMidnight, waitFor} from '../../helpers/wait.ts';

type Stats = {from: string; to: string; by: string | null; rows: Array<Record<string, unknown>>};

/** Three messages of the first workspace, of which one bounced, and one of another. */
async function prepare(t: ExecutionContext) {
	await clearOfMidnight();
	const cli = await newCli(t);
	await cli.json('init');
	const store = await cli.store();
	const {id} = await store.reader('workspaces').first();
	const [template] = await cli.json<[{id: string}]>('template', 'list');
	const messages = await insertMessages(store, id, ['a@one.example', 'b@one.example', 'c@two.example']);
	await store.database('messages').update({template_id: template.id});
	await store.database('recipients').where({message_id: messages[0]}).update({state: 'delivered'});
	await store.database('recipients').where({message_id: messages[2]}).update({state: 'bounced'});
	const {workspaceId: otherId} = await insertWorkspace(store, 'other');
	await insertMessages(store, otherId, ['d@two.example']);
	return {cli, store, workspaceId: id as string, otherId, templateId: template.id};
}

const zeros = {delivered: 0, bounced: 0, complained: 0, opened: 0, clicked: 0, errored: 0};

test('stats --json prints a total row, or one row per group', async t => {
	const {cli, workspaceId, otherId, templateId} = await prepare(t);
	const stats = async (...args: string[]) => await cli.json<Stats>('stats', ...args);
	const today = new Date().toISOString().slice(0, 10);
	const total = await stats();
	t.deepEqual(total, {
		from: storeTime(Date.parse(today) - 29 * 86_400_000),
		to: total.to,
		by: null,
		rows: [{key: 'total', ...zeros, accepted: 4, delivered: 1, bounced: 1}],
	});
	t.is((await stats('--days', '1')).from, `${today}T00:00:00.000Z`);
	const {by, rows} = await stats('--by', 'workspace');
	t.is(by, 'workspace');
	t.deepEqual(rows, [
		{key: 'default', id: workspaceId, ...zeros, accepted: 3, delivered: 1, bounced: 1},
		{key: 'other', id: otherId, ...zeros, accepted: 1},
	]);
	t.like((await stats('--by', 'template', '--workspace', 'default')).rows, [
		{key: 'sample', id: templateId, accepted: 3},
	]);
	t.deepEqual(
		(await stats('--by', 'destination', '--workspace', 'default')).rows.map(({key, accepted}) => [key, accepted]),
		[
			['one.example', 2],
			['two.example', 1],
		],
	);
	t.deepEqual((await stats('--by', 'domain')).rows, [
		{key: 'shop.example', ...zeros, accepted: 4, delivered: 1, bounced: 1},
	]);
	t.deepEqual((await stats('--by', 'category')).rows, [{key: 'undetermined', ...zeros, accepted: 1, bounced: 1}]);
});

test('stats fits 80 columns, and --csv has the columns of --json', async t => {
	const {cli, store} = await prepare(t);
	golden(t, 'stats', await cli.text('stats'));
	golden(t, 'stats-by-destination', await cli.text('stats', '--by', 'destination'));
	t.regex(await cli.text('stats', '--days', '1'), /^\s+TODAY +SHARE +BY DAY$/m);
	t.is(
		await cli.text('stats', '--by', 'destination', '--csv'),
		'key,accepted,delivered,bounced,complained,opened,clicked,errored\r\n' +
			'one.example,2,1,0,0,0,0,0\r\ntwo.example,2,0,1,0,0,0,0\r\n',
	);
	await store.database('recipients').delete();
	t.regex(await cli.text('stats', '--by', 'destination'), /\n\nNo messages were accepted\.\n$/);
	t.regex(await cli.text('stats', '--by', 'category'), /\n\nNothing bounced\.\n$/);
});

test('stats rejects invalid and conflicting options', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	for (const [args, stderr] of [
		[['--by', 'day'], /--by "day" is not allowed, use workspace, domain, template, destination, category/],
		[['--days', '91'], /--days "91" is not allowed, use a whole number, 1 to 90/],
		[['--csv', '--json'], /--csv cannot be combined with --json or --watch, leave out --json and --watch/],
		[['--watch'], /--watch needs a terminal, omit it to print once/],
	] as const) {
		refused(t, await cli.run('stats', ...args), 64, stderr);
	}
	refused(t, await cli.run('queue', 'summary', '--watch'), 64, /--watch needs a terminal/);
});

test('stats and queue summary --watch redraw changes until Ctrl-C and exit with 0', async t => {
	const program = await prepareProgram(t, {COLUMNS: '80'});
	await program.cliBytes('init');
	const watched = [
		{verb: ['stats'], before: /accepted +0 /, after: /accepted +1 /},
		{verb: ['queue', 'summary'], before: /no messages are waiting/, after: /one\.example +1 /},
	].map(each => {
		const command = [process.execPath, 'bin/mailctl.js', ...each.verb, '--watch'];
		return {...each, terminal: startOnTerminal(t, program, command, {owner: true, cwd: process.cwd()})};
	});
	for (const {before, terminal} of watched) {
		await waitFor('it draws', () => before.test(terminal.shown()));
	}
	const store = await openStore({file: `${program.folder}/data/mailctl.db`});
	const {id} = await store.reader('workspaces').first();
	await insertMessages(store, id, ['watched@one.example']);
	await store.close();
	for (const {after, terminal} of watched) {
		const end = '\x1b[K\r\n\x1b[J';
		// A terminal may hand on the beginning of a frame before the rest of it.
		const shown = await waitFor('it draws the message, to its end', () => {
			const text = terminal.shown();
			return after.test(text) && text.endsWith(end) && text;
		});
		for (const frame of shown.split('\x1b[H').slice(1)) {
			t.true(frame.endsWith(end), JSON.stringify(frame));
		}
		terminal.type('\x03');
		t.is(await terminal.ended, 0);
	}
});
