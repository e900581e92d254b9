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
	const soon = await send(first.url, 'soon@a.example', new Date(Date.now() + 4000).toISOString());
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
		const {data} = (await call(`${daemon.url}/v1/messages/${id}/events`, key)).body as {data: Array<{type: string}>};
		t.is(data.filter(({type}) => type === 'delivered').length, 1);
	}
	t.is(await daemon.stop(), 0);
});
