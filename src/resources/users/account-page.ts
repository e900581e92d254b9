import {renderSVG} from 'uqr';
import {act, badge, code, hidden, input, name, opened, section, table, time} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {newPasskey, newPassword, parsePasskey, siteOf, toProblem} from '../../dashboard/proof.ts';
import {type Answer, go, missing, type Page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {removeTotp, setPassword, setTotp} from './log-in.ts';
import {removePasskey} from './passkeys.ts';
import {findUser, listPasskeys, type Passkey, type User, type UserSession} from './store.ts';
import {createTotpSecret, isTotpSecret, totpUri} from './totp.ts';

/** What users change of their own: how they log in, and where they are logged in. */
export function accountPages(parts: DashboardParts): readonly Route[] {
	const {reader, store, vault, change, sessions, passkeys} = parts;

	async function show({signedIn, now, request}: Visit, more: Partial<Page> = {}, secret?: string): Promise<Answer> {
		const user = (await findUser(reader, signedIn.user.id)) as User;
		const [own, living] = [await listPasskeys(reader, user.id), await sessions.listOf(user.id)];
		const content = html`${section('Password', newPassword(user))}
${section('Passkeys', html`${passkeyTable(own, now)}${await newPasskey(parts, user, request)}`)}
${section('One-time codes', totpForms(user, secret ?? createTotpSecret(parts.tools.random), secret !== undefined))}
${section(
	'Sessions',
	sessionTable(living, signedIn.sessionId, now),
	living.length > 1
		? act({to: '/account/sessions/end', label: 'Log out everywhere else', look: 'danger'})
		: undefined,
)}`;
		return {kind: 'page', place: null, title: user.email, content, ...more};
	}

	const failed = async (visit: Visit, problem: string, secret?: string) => await show(visit, {problem}, secret);
	const done = (notice: string) => go('/account', notice);
	const userOf = async ({signedIn}: Visit) => (await findUser(reader, signedIn.user.id)) as User;
	const post = (path: string, answer: Route['answer']): Route => ({method: 'POST', path, role: 'viewer', answer});
	const fresh = (path: string, answer: Route['answer']): Route => ({...post(path, answer), fresh: true});

	return [
		{method: 'GET', path: '/account', role: 'viewer', answer: visit => show(visit)},
		fresh('/account/password', async visit => {
			const {form, tools, signedIn} = visit;
			const given = {password: form.get('password') ?? '', sessionId: signedIn.sessionId};
			const set = await setPassword(store, tools, {...given, user: await userOf(visit)});
			if (set.ok) {
				return done('The password is set. All other sessions have ended.');
			}
			return set.reason === 'fault'
				? await failed(visit, `The password ${set.problem}.`)
				: await show(visit, toProblem(set, ''));
		}),
		fresh('/account/passkeys', async visit => {
			const {form, tools, request} = visit;
			const site = siteOf(request);
			const given = {...parsePasskey(form), name: form.get('name') ?? ''};
			const made = site && (await passkeys.register(tools.operator, await userOf(visit), {...given, site}));
			return made
				? done('The passkey is added.')
				: await failed(visit, 'This passkey could not be added. Try again.');
		}),
		fresh('/account/passkeys/:id/remove', async visit => {
			const user = await userOf(visit);
			const removed = await change(trx => removePasskey(trx, visit.tools, user, visit.params.id ?? ''));
			return removed ? done('The passkey is removed.') : missing('You have no such passkey.');
		}),
		fresh('/account/codes', async visit => {
			const {form, tools} = visit;
			const [secret, given] = [form.get('key') ?? '', form.get('code') ?? ''];
			const user = await userOf(visit);
			return (await setTotp(store, tools, vault, {user, secret, code: given}))
				? done('A log-in by password now wants a code too.')
				: await failed(
						visit,
						'The code does not fit. Check the clock of your phone.',
						isTotpSecret(secret) ? secret : undefined,
					);
		}),
		fresh('/account/codes/remove', async visit => {
			await removeTotp(store, visit.tools, await userOf(visit));
			return done('No code is asked for any more.');
		}),
		post('/account/sessions/end', async ({signedIn, tools}) => {
			await sessions.end(signedIn.user.id, {except: signedIn.sessionId}, tools.operator);
			return done('All other sessions have ended.');
		}),
		post('/account/sessions/:id/end', async ({signedIn, tools, params}) => {
			const ended = await sessions.end(signedIn.user.id, {id: params.id ?? ''}, tools.operator);
			return ended > 0 ? done('The session has ended.') : missing('You have no such session.');
		}),
	];
}

function passkeyTable(rows: readonly Passkey[], now: number): Html {
	return table({
		label: 'Passkeys',
		rows,
		empty: html`<p>No passkeys. With one you log in by fingerprint, face or PIN, and nobody can steal a password.</p>`,
		columns: [
			{title: 'Name', cell: row => name(row.name)},
			{title: 'Added', cell: row => time(row.created_at, now)},
			{title: 'Used', cell: row => time(row.used_at, now)},
			{
				title: '',
				cell: row => act({to: `/account/passkeys/${row.id}/remove`, label: 'Remove', look: 'danger'}),
				right: true,
			},
		],
	});
}

function totpForms({totp, email}: User, secret: string, isOpen: boolean): Html {
	if (totp !== null) {
		return html`<p>${badge('on', 'good')} A log-in by password wants a code too.</p>${act({to: '/account/codes/remove', label: 'Turn off', look: 'danger'})}`;
	}
	const field = {
		name: 'code',
		label: 'Code that the app shows',
		required: true,
		autocomplete: 'one-time-code',
	} as const;
	const content = html`<p>Scan this with an app for one-time codes, or type the key into it.</p>
<div class="qr" role="img" aria-label="QR code of the key">${{markup: renderSVG(totpUri(secret, email))}}</div>
<p>${code(secret)}</p>
${act({to: '/account/codes', label: 'Turn on', fields: html`${hidden('key', secret)}${input(field)}`})}`;
	return html`<p>${badge('off', 'idle')} A log-in wants the password alone.</p>${isOpen ? html`<div class="card">${content}</div>` : opened('Set up', content)}`;
}

function sessionTable(rows: readonly UserSession[], own: string, now: number): Html {
	return table({
		label: 'Sessions',
		rows,
		empty: html`<p>No sessions.</p>`,
		columns: [
			{
				title: 'Browser',
				cell: row => html`${name(browserOf(row.agent))}<small class="narrow">${row.address}</small>`,
				cut: true,
			},
			{title: 'Address', cell: row => code(row.address), wide: true},
			{title: 'Began', cell: row => time(row.created_at, now), wide: true},
			{title: 'Seen', cell: row => time(row.seen_at, now)},
			{
				title: '',
				cell: row =>
					row.id === own
						? badge('this one', 'good')
						: act({to: `/account/sessions/${row.id}/end`, label: 'Log out', look: 'quiet'}),
				right: true,
			},
		],
	});
}

/** `Firefox on Linux`, as the browser's User-Agent says. */
function browserOf(agent: string): string {
	const browser = ['Firefox', 'Edg', 'Chrome', 'Safari'].find(one => agent.includes(one));
	const system = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS', 'Linux'].find(one => agent.includes(one));
	const known = browser === 'Edg' ? 'Edge' : browser;
	return known === undefined ? agent || 'unknown' : system === undefined ? known : `${known} on ${system}`;
}
