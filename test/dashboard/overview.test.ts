import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import type {Workspace} from '../helpers/service.ts';
import {clearOfNextHour, waitFor} from '../helpers/wait.ts';
import {service} from './service.ts';

const of = (name: string) => service().workspaces[name] as Workspace;

/** The value of a tile. */
function figure(page: string, title: string): string | undefined {
	const [, shown] = new RegExp(`<span class="soft">${title}</span><strong>([^<]*)</strong>`).exec(page) ?? [];
	return shown;
}

async function send({live, from, templates}: Workspace, to: string): Promise<string> {
	const {body} = await live.post<{id: string}>('/v1/messages', {
		from,
		to,
		templateId: templates.plain,
		data: {name: 'x'},
	});
	return body.id;
}

async function delivered({live}: Workspace, id: string): Promise<void> {
	await waitFor('delivered', async () => {
		const {body} = await live.get<{status: string}>(`/v1/messages/${id}`);
		return body.status === 'delivered';
	});
}

test('shows the next steps for a workspace without messages', async t => {
	const {text} = await (await visitorOf(service(), 'viewer', 'empty')).get('/overview');
	t.regex(text, /all well/);
	t.notRegex(text, /Run the checks/);
	t.regex(text, /2 of 5 done/, 'a sender brought the domain, and the template is its own');
	t.regex(text, /No messages in the last 24 hours/);
	t.is(figure(text, 'Accepted'), '0');
	t.notRegex(text, /data-chart/);
});

test('counts messages by hour and day, and shows the time to delivery', async t => {
	await clearOfNextHour();
	const shop = of('counted');
	for (const id of [await send(shop, 'a@dest.example'), await send(shop, 'b@dest.example')]) {
		await delivered(shop, id);
	}
	const visitor = await visitorOf(service(), 'viewer', 'counted');
	for (const period of ['', '?period=7d', '?period=30d']) {
		const {text} = await visitor.get(`/overview${period}`);
		t.is(figure(text, 'Accepted'), '2', period);
		t.is(figure(text, 'Delivered'), '2', period);
		t.is(figure(text, 'Bounced'), '0', period);
		t.regex(figure(text, 'Time to delivery') ?? '', /^\d+(\.\d)? (ms|s)$/);
		t.regex(text, /data-chart=/);
		t.regex(
			text,
			/<td class="right">2<\/td><td class="right">2<\/td><td class="right">0<\/td>/,
			'the table beside it',
		);
	}
	const [, drawn = ''] = /data-chart="([^"]+)"/.exec((await visitor.get('/overview')).text) ?? [];
	const {unit, times, series} = JSON.parse(drawn.replaceAll('&quot;', '"'));
	t.is(unit, 'count');
	t.is(times.length, 24);
	t.deepEqual(
		series.map(({values}: {values: number[]}) => [values.length, values.reduce((sum, n) => sum + n)]),
		[
			[24, 2],
			[24, 2],
			[24, 0],
			[24, 0],
		],
	);
});

test('only pages with charts load the chart script', async t => {
	const visitor = await visitorOf(service(), 'viewer', 'counted');
	t.regex((await visitor.get('/overview')).text, /uplot\.js/);
	t.notRegex((await visitor.get('/messages')).text, /uplot/);
});

test('shows what delays messages of this workspace only, and escapes text from outside', async t => {
	const {id} = of('stopped');
	const {cli} = service().program;
	await cli('queue', 'suspend', 'waits.example', '--reason', 'their wish');
	const visitor = await visitorOf(service(), 'viewer', 'stopped');
	await waitFor('mail that waits', async () => {
		// The daemon may deliver before it hears of the suspension.
		await send(of('stopped'), 'a@waits.example');
		const {text} = await visitor.get('/overview');
		return figure(text, 'Waiting') !== '0' && /Needs attention.*their wish/s.test(text);
	});
	await cli('workspace', 'pause', id, '--reason', 'too <b>many</b> bounces');
	t.regex((await visitor.get('/overview')).text, /too &lt;b&gt;many&lt;\/b&gt; bounces/);

	const {text: page} = await visitor.get('/messages');
	t.regex(page, /class="notice bad banner".*This workspace is paused: too &lt;b&gt;many/s, 'on every page of it');
	t.notRegex(page, /label="Resume"|>Resume</, 'a viewer cannot resume it');

	const {text: other} = await (await visitorOf(service(), 'viewer', 'counted')).get('/overview');
	t.notRegex(other, /too &lt;b|their wish|Needs attention/);
	const admin = await visitorOf(service(), 'admin');
	const {text: all} = await admin.get('/overview');
	t.regex(all, /href="\/health\/checks"/);
	t.regex(all, /too &lt;b/, 'who may see all workspaces hears of all that are paused');
	await waitFor('the count of incidents', async () =>
		/<title>\(\d+\) .*>Alerts <span class="badge bad">\d+</s.test((await admin.get('/messages')).text),
	);
	const {text: paused} = await admin.get(`/w/${id}/messages`);
	t.regex(paused, new RegExp(`class="notice bad banner".*action="/workspaces/${id}/resume"`, 's'));
	t.regex(paused, /<title>\(\d+\) stopped · Messages</);
});

test('runs the checks once for admins of the installation', async t => {
	const admin = await visitorOf(service(), 'admin');
	const isChecked = async () => /Checked <time/.test((await admin.get('/overview')).text);
	await t.notThrowsAsync(waitFor('the checks are made', isChecked));
});

test('shows how many simulated messages are not counted, and counts them on request', async t => {
	const tried = of('tried');
	await delivered(tried, await send(tried, 'a@dest.example'));
	for (const to of ['delivered+1@simulator.test', 'delivered+2@simulator.test']) {
		await delivered(tried, await send(tried, to));
	}
	const bounced = await send(tried, 'bounced+1@simulator.test');
	await waitFor('bounced', async () => {
		const {body} = await tried.live.get<{status: string}>(`/v1/messages/${bounced}`);
		return body.status === 'bounced';
	});
	const visitor = await visitorOf(service(), 'viewer', 'tried');
	const {text} = await visitor.get('/overview');
	t.regex(text, /3 simulated not counted\. <a href="\/overview\?simulated=1">Count them<\/a>/);
	t.is(figure(text, 'Accepted'), '1');
	t.is(figure(text, 'Bounced'), '0');
	const all = (await visitor.get('/overview?simulated=1')).text;
	t.regex(all, /3 simulated counted too\. <a href="\/overview">Leave them out<\/a>/);
	t.is(figure(all, 'Accepted'), '4');
	t.is(figure(all, 'Delivered'), '3');
	t.is(figure(all, 'Bounced'), '1');
	t.regex((await visitor.get('/deliverability')).text, /3 simulated not counted.*Based on 1 recipients/s);
	t.regex((await visitor.get('/deliverability?simulated=1')).text, /3 simulated counted too.*Based on 4 recipients/s);
});
