import test from 'ava';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Read = {readonly id: string; readonly status: string; readonly send_at?: string};

test('scheduled messages survive kill -9, can be rescheduled or canceled, and are sent once on time', async t => {
	const program = await prepareProgram(t, {});
	const first = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const send = async (to: string, sendAt: string) =>
		((await call(`${first.url}/v1/messages`, key, {from, to, templateId, sendAt})).body as Read).id;
	const statusAt = async (url: string, id: string) =>
		((await call(`${url}/v1/messages/${id}`, key)).body as Read).status;
	const change = async (method: 'PATCH' | 'POST', path: string, body: object) => {
		const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json'};
		const answer = await fetch(`${first.url}/v1/messages/${path}`, {method, headers, body: JSON.stringify(body)});
		t.is(answer.status, 200, `${method} ${path}`);
	};
	const at = (ms: number) => new Date(Date.now() + ms).toISOString();
	const soon = await send('soon@a.example', at(15_000));
	const moved = await send('moved@a.example', '+2h');
	const late = await send('late@a.example', '+2h');
	const cancelled = await send('cancelled@a.example', at(10_000));
	const postponed = await send('postponed@a.example', at(10_000));
	const advanced = await send('advanced@a.example', '+2h');
	t.is(await statusAt(first.url, soon), 'accepted');
	// What was changed right before the kill stays so.
	await Promise.all([
		change('POST', `${cancelled}/cancel`, {}),
		change('PATCH', postponed, {sendAt: '+2h'}),
		change('PATCH', advanced, {sendAt: at(8000)}),
	]);
	await first.kill();

	const daemon = await program.serve();
	const status = async (id: string) => await statusAt(daemon.url, id);
	t.is(await status(moved), 'accepted');
	t.like(await program.cli('message', 'cancel', late), {status: 'errored'});
	// By then the time of the canceled and the postponed one has come.
	await waitFor('its time', async () => (await status(soon)) === 'delivered');
	await waitFor('the one that was advanced', async () => (await status(advanced)) === 'delivered');
	t.is(await status(moved), 'accepted');
	await program.cli('message', 'reschedule', moved, '+1s');
	await waitFor('the new time', async () => (await status(moved)) === 'delivered');
	const typesOf = async (id: string) =>
		((await call(`${daemon.url}/v1/messages/${id}/events`, key)).body as {data: Array<{type: string}>}).data.map(
			({type}) => type,
		);
	for (const id of [soon, moved, advanced]) {
		t.deepEqual(await typesOf(id), ['accepted', 'queued', 'sent', 'delivered']);
	}
	for (const id of [late, cancelled]) {
		t.deepEqual(await typesOf(id), ['accepted', 'errored']);
	}
	t.deepEqual(await typesOf(postponed), ['accepted']);
	t.is(await daemon.stop(), 0);
});
