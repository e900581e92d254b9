import test from 'ava';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Read = {readonly id: string; readonly status: string; readonly send_at?: string};

test('scheduled mail outlives kill -9, goes once at its time, or earlier, or never, as it is asked', async t => {
	const program = await prepareProgram(t, {});
	const first = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const send = async (url: string, to: string, sendAt: string) =>
		((await call(`${url}/v1/messages`, key, {from, to, templateId, sendAt})).body as Read).id;
	const read = async (url: string, id: string) => (await call(`${url}/v1/messages/${id}`, key)).body as Read;
	const soon = await send(first.url, 'soon@a.example', new Date(Date.now() + 15_000).toISOString());
	const moved = await send(first.url, 'moved@a.example', '+2h');
	const cancelled = await send(first.url, 'cancelled@a.example', '+2h');
	t.is((await read(first.url, soon)).status, 'accepted');
	await first.kill();

	const daemon = await program.serve();
	t.is((await read(daemon.url, moved)).status, 'accepted');
	t.like(await program.cli('message', 'cancel', cancelled), {status: 'errored'});
	await waitFor('its time', async () => (await read(daemon.url, soon)).status === 'delivered');
	t.is((await read(daemon.url, moved)).status, 'accepted');
	await program.cli('message', 'reschedule', moved, '+1s');
	await waitFor('the new time', async () => (await read(daemon.url, moved)).status === 'delivered');
	t.is((await read(daemon.url, cancelled)).status, 'errored');
	for (const id of [soon, moved]) {
		const {data} = (await call(`${daemon.url}/v1/messages/${id}/events`, key)).body as {
			data: Array<{type: string}>;
		};
		t.is(data.filter(({type}) => type === 'delivered').length, 1);
	}
	t.is(await daemon.stop(), 0);
});

test('what was cancelled or moved right before kill -9 is so after it', async t => {
	const program = await prepareProgram(t, {});
	const first = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const send = async (to: string, sendAt: string) =>
		((await call(`${first.url}/v1/messages`, key, {from, to, templateId, sendAt})).body as Read).id;
	const change = async (method: 'PATCH' | 'POST', path: string, body: object) => {
		const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json'};
		const answer = await fetch(`${first.url}/v1/messages/${path}`, {method, headers, body: JSON.stringify(body)});
		t.is(answer.status, 200, `${method} ${path}`);
	};
	const at = (ms: number) => new Date(Date.now() + ms).toISOString();
	const cancelled = await send('cancelled@a.example', at(10_000));
	const postponed = await send('postponed@a.example', at(10_000));
	const advanced = await send('advanced@a.example', '+2h');
	const last = await send('last@a.example', at(12_000));
	await Promise.all([
		change('POST', `${cancelled}/cancel`, {}),
		change('PATCH', postponed, {sendAt: '+2h'}),
		change('PATCH', advanced, {sendAt: at(8000)}),
	]);
	await first.kill();

	const daemon = await program.serve();
	const typesOf = async (id: string) =>
		((await call(`${daemon.url}/v1/messages/${id}/events`, key)).body as {data: Array<{type: string}>}).data.map(
			({type}) => type,
		);
	// By then the time of those before has come.
	await waitFor('the last', async () => (await typesOf(last)).includes('delivered'));
	await waitFor('the one that was advanced', async () => (await typesOf(advanced)).includes('delivered'));
	t.deepEqual(await typesOf(cancelled), ['accepted', 'errored']);
	t.deepEqual(await typesOf(postponed), ['accepted']);
	t.deepEqual(await typesOf(advanced), ['accepted', 'queued', 'sent', 'delivered']);
	t.is(await daemon.stop(), 0);
});
