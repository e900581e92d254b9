import test from 'ava';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

test('metrics count accepted messages and requests', async t => {
	const program = await prepareProgram(t, {});
	const {url} = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const metrics = async () => (await (await fetch(`${url}/metrics`)).text()).split('\n');
	const isThere = (line: string) => waitFor(line, async () => (await metrics()).includes(line));
	const counted = (method: string, route: string, status: number, n: number) =>
		isThere(
			`mailctl_http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"} ${n}`,
		);

	const send = {from, to: 'ada@example.com', templateId};
	t.is((await call(`${url}/v1/messages`, key, send)).status, 202);
	t.is((await call(`${url}/v1/messages`, key, {...send, cc: ['bob@example.org']})).status, 202);
	t.is((await call(`${url}/v1/messages`, key, {...send, templateId: 'none'})).status, 422);
	t.is((await fetch(`${url}/nowhere/at/all`)).status, 404);
	await isThere('mailctl_messages_accepted_total{mode="live"} 2');
	await counted('POST', '/v1/messages', 202, 2);
	await counted('POST', '/v1/messages', 422, 1);
	await counted('GET', 'none', 404, 1);
	t.pass();
});
