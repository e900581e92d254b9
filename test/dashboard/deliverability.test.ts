import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {startMx} from '../helpers/delivering-to.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

const service = serviceOf(test, {
	workspaces: {shop: [], empty: []},
	async settings(scope) {
		const rcpt = (line: string) => {
			const [, who = ''] = /<([^@]*)/.exec(line) ?? [];
			if (who.startsWith('gone')) {
				return `550 5.1.1 <${who}@a.example>: <b>no</b> such user`;
			}
			return who.startsWith('later') ? '451 4.7.1 Greylisted, try again in 300 seconds' : undefined;
		};
		const {settings} = await startMx(scope, {rcpt});
		return {...settings, MAILCTL_SOURCE_ADDRESSES: '127.0.0.1', MAILCTL_WARM_UP: '127.0.0.1=2026-01-01'};
	},
});
const of = (name: string) => service().workspaces[name] as Workspace;

/** Sends to these addresses and waits until each has been tried. */
async function sendTo({live, from, templates}: Workspace, addresses: readonly string[]): Promise<void> {
	for (const to of addresses) {
		const send = {from, to, templateId: templates.plain, data: {name: 'x'}};
		const {body} = await live.post<{id: string}>('/v1/messages', send);
		await waitFor('a reply', async () => {
			const {body: recipients} = await live.get<{data: Array<{last_reply: string | null}>}>(
				`/v1/messages/${body.id}/recipients`,
			);
			return recipients.data[0]?.last_reply;
		});
	}
}

test('what hosts take, put off and refuse is told by provider, wording, category and destination', async t => {
	await sendTo(of('shop'), ['ann@a.example', 'gone1@a.example', 'gone2@a.example', 'later@b.example']);
	const {text} = await (await visitorOf(service(), 'viewer', 'shop')).get('/deliverability');
	t.regex(text, /Looked at: 4 copies/);
	t.regex(
		text,
		/<td class="cut"><bdi>mx\.example<\/bdi><\/td><td class="right">4<\/td><td class="right">25\.0 %<\/td>/,
	);
	t.regex(text, /<td class="cut"><bdi>a\.example<\/bdi><\/td><td class="right">3<\/td>/);
	t.regex(text, /<bdi>550 5\.1\.1 : &lt;b&gt;no&lt;\/b&gt; such user<\/bdi>/, 'both refusals as one, and as text');
	t.regex(text, /try again in … seconds/);
	t.regex(text, /unknown_user<\/td><td class="right">2<\/td><td class="right">100 %<\/td>/);
	t.regex(text, /127\.0\.0\.1/);
	t.regex(text, /day \d+|known/);
});

test('without mail it says what will stand there', async t => {
	const {text} = await (await visitorOf(service(), 'viewer', 'empty')).get('/deliverability?period=7d');
	t.regex(text, /No mail in 7 days/);
	t.notRegex(text, /a\.example/);
});
