import {renderSVG} from 'uqr';
import {
	act,
	badge,
	code,
	dangerItem,
	disclosure,
	hidden,
	input,
	menu,
	name,
	section,
	table,
	time,
} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {newPasskey, newPassword, parsePasskey, siteOf, toProblem} from '../../dashboard/proof.ts';
import {type Answer, go, missing, type Page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {removeTotp, setPassword, setTotp} from './log-in.ts';
import {removePasskey} from './passkeys.ts';
import {findUser, listPasskeys, type Passkey, type User, type UserSession} from './store.ts';
import {createTotpSecret, isTotpSecret, totpUri} from './totp.ts';

/** The account page: how users sign in, and their sessions. */
export function accountPages(parts: DashboardParts): readonly Route[] {
	const {reader, store, vault, change, sessions, passkeys} = parts;

	async function show({signedIn, now, request}: Visit, extra: Partial<Page> = {}, secret?: string): Promise<Answer> {
		const user = (await findUser(reader, signedIn.user.id)) as User;
		const [keys, active] = [await listPasskeys(reader, user.id), await sessions.listOf(user.id)];
		const endSessions = html`<div class="actions">${menu([dangerItem({to: '/account/sessions/end', ...sessionsEnd})])}</div>`;
		const content = html`${section('Password', newPassword(user))}
${section('Passkeys', html`${passkeyTable(keys, now)}${await newPasskey(parts, user, request)}`)}
${section('One-time codes', totpForms(user, secret ?? createTotpSecret(parts.tools.random), secret !== undefined))}
${section('Sessions', sessionTable(active, signedIn.sessionId, now), active.length > 1 ? endSessions : undefined)}`;
		return {kind: 'page', place: null, title: user.email, content, ...extra};
	}

	const failed = async (visit: Visit, problem: string, secret?: string) => await show(visit, {problem}, secret);
	const done = (notice: string) => go('/account', notice);
	const readUser = async ({signedIn}: Visit) => (await findUser(reader, signedIn.user.id)) as User;
	const post = (path: string, answer: Route['answer']): Route => ({method: 'POST', path, role: 'viewer', answer});
	const fresh = (path: string, answer: Route['answer']): Route => ({...post(path, answer), fresh: true});

	return [
		{method: 'GET', path: '/account', role: 'viewer', answer: visit => show(visit)},
		fresh('/account/password', async visit => {
			const {form, tools, signedIn} = visit;
			const input = {password: form.get('password') ?? '', sessionId: signedIn.sessionId};
			const result = await setPassword(store, tools, {...input, user: await readUser(visit)});
			if (result.ok) {
				return done('The password is set. All other sessions have ended.');
			}
			return result.reason === 'fault'
				? await failed(visit, `The password ${result.problem}.`)
				: await show(visit, toProblem(result, ''));
		}),
		fresh('/account/passkeys', async visit => {
			const {form, tools, request} = visit;
			const site = siteOf(request);
			const input = {...parsePasskey(form), name: form.get('name') ?? ''};
			const passkey = site && (await passkeys.register(tools.operator, await readUser(visit), {...input, site}));
			return passkey
				? done('The passkey is added.')
				: await failed(visit, 'This passkey could not be added. Try again.');
		}),
		fresh('/account/passkeys/:id/remove', async visit => {
			const user = await readUser(visit);
			const removed = await change(trx => removePasskey(trx, visit.tools, user, visit.params.id ?? ''));
			return removed ? done('The passkey is removed.') : missing('This passkey does not exist.');
		}),
		fresh('/account/codes', async visit => {
			const {form, tools} = visit;
			const [secret, code] = [form.get('key') ?? '', form.get('code') ?? ''];
			const user = await readUser(visit);
			return (await setTotp(store, tools, vault, {user, secret, code}))
				? done('Signing in with a password now also requires a code.')
				: await failed(
						visit,
						'The code is not valid. Check the clock of your phone.',
						isTotpSecret(secret) ? secret : undefined,
					);
		}),
		fresh('/account/codes/remove', async visit => {
			await removeTotp(store, visit.tools, await readUser(visit));
			return done('Codes are no longer required.');
		}),
		post('/account/sessions/end', async ({signedIn, tools}) => {
			await sessions.end(signedIn.user.id, {except: signedIn.sessionId}, tools.operator);
			return done('All other sessions have ended.');
		}),
		post('/account/sessions/:id/end', async ({signedIn, tools, params}) => {
			const ended = await sessions.end(signedIn.user.id, {id: params.id ?? ''}, tools.operator);
			return ended > 0 ? done('The session has ended.') : missing('This session does not exist.');
		}),
	];
}

const sessionsEnd = {label: 'Sign out everywhere else', about: 'Ends all sessions but this one.'};
const codesRemoval = {label: 'Turn off codes', about: 'The password is then enough to sign in.'};
const passkeyRemoval = {label: 'Remove passkey', about: 'It can then no longer be used to sign in.'};

function passkeyTable(rows: readonly Passkey[], now: number): Html {
	return table({
		label: 'Passkeys',
		rows,
		empty: html`<p>No passkeys yet. A passkey lets you sign in with a fingerprint, face or PIN instead of a password that could be stolen.</p>`,
		columns: [
			{title: 'Name', cell: row => name(row.name)},
			{title: 'Added', cell: row => time(row.created_at, now)},
			{title: 'Last used', cell: row => time(row.used_at, now)},
			{
				title: '',
				cell: row => menu([dangerItem({to: `/account/passkeys/${row.id}/remove`, ...passkeyRemoval})]),
				right: true,
			},
		],
	});
}

function totpForms({totp, email}: User, secret: string, isOpen: boolean): Html {
	if (totp !== null) {
		return html`<p>${badge('on', 'good')} Signing in with a password also requires a code.</p>${menu([dangerItem({to: '/account/codes/remove', ...codesRemoval})])}`;
	}
	const field = {
		name: 'code',
		label: 'Code from the app',
		required: true,
		autocomplete: 'one-time-code',
	} as const;
	const content = html`<p>Scan this with an authenticator app, or enter the key there.</p>
<div class="qr" role="img" aria-label="QR code of the key">${{markup: renderSVG(totpUri(secret, email))}}</div>
<p>${code(secret)}</p>
${act({to: '/account/codes', label: 'Turn on', fields: html`${hidden('key', secret)}${input(field)}`})}`;
	return html`<p>${badge('off', 'idle')} Signing in requires only the password.</p>${isOpen ? html`<div class="card">${content}</div>` : disclosure('Set up', content)}`;
}

function sessionTable(rows: readonly UserSession[], currentId: string, now: number): Html {
	return table({
		label: 'Sessions',
		rows,
		empty: html`<p>No sessions.</p>`,
		columns: [
			{
				title: 'Browser',
				cell: row => html`${name(describeBrowser(row.agent))}<small class="narrow">${row.address}</small>`,
				cut: true,
			},
			{title: 'Address', cell: row => code(row.address), wide: true},
			{title: 'Started', cell: row => time(row.created_at, now), wide: true},
			{title: 'Last seen', cell: row => time(row.seen_at, now)},
			{
				title: '',
				cell: row =>
					row.id === currentId
						? badge('this session', 'good')
						: act({to: `/account/sessions/${row.id}/end`, label: 'End session', look: 'quiet'}),
				right: true,
			},
		],
	});
}

/** Describes a browser by its User-Agent: `Firefox on Linux`. */
function describeBrowser(agent: string): string {
	const browser = ['Firefox', 'Edg', 'Chrome', 'Safari'].find(name => agent.includes(name));
	const system = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS', 'Linux'].find(name => agent.includes(name));
	if (browser === undefined) {
		return agent || 'unknown';
	}
	const browserName = browser === 'Edg' ? 'Edge' : browser;
	return system === undefined ? browserName : `${browserName} on ${system}`;
}
