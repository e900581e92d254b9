import type {FastifyRequest} from 'fastify';
import {
	act,
	badge,
	copyable,
	facts,
	input,
	name,
	opened,
	section,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {checkTyped, pageForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, type Page, type Route, type Visit} from '../../dashboard/route.ts';
import {maxOffered} from '../../dashboard/visitor.ts';
import {type Html, html} from '../../hosted/html.ts';
import {parseAddress} from '../../mail/address.ts';
import {type Role, roles} from '../../mail/operator.ts';
import {notFound} from '../operation.ts';
import {findWorkspace} from '../workspaces/store.ts';
import {addUser, changeUser, type Linked, linkFor, removeUser} from './rules.ts';
import {findUser, type ListedUser, listUsers, type User} from './store.ts';

const everyWorkspace = 'all';

/** Who may see the dashboard. Admins of one workspace see and change its users alone. */
export function userPages({reader, change}: DashboardParts): readonly Route[] {
	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {signedIn, now, form} = visit;
		const rows = await listUsers(reader, signedIn.user.workspaceId ?? undefined);
		const email = {
			name: 'email',
			label: 'E-mail',
			type: 'email',
			required: true,
			value: form.get('email') ?? '',
		} as const;
		const fields = html`${input(email)}${roleField('viewer')}${workspaceField(visit, signedIn.user.workspaceId)}`;
		const actions = opened('Add a user', act({to: '/users', label: 'Add', fields}));
		return {kind: 'page', place: 'users', title: 'Users', problem, actions, content: userTable(rows, now)};
	}

	/** The user of the path, if the visitor may change them. */
	async function found({params: {id = ''}, signedIn}: Visit): Promise<User | undefined> {
		const user = await findUser(reader, id);
		const own = signedIn.user.workspaceId;
		return user && (own === null || user.workspace_id === own) ? user : undefined;
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {now, signedIn} = visit;
		const user = (await found(visit)) ?? notFound('user', '');
		const workspace = user.workspace_id === null ? undefined : await findWorkspace(reader, user.workspace_id);
		const said = facts([
			['Role', user.role],
			['Workspace', user.workspace_id === null ? 'all' : name(workspace?.name ?? user.workspace_id)],
			[
				'Password',
				user.password_hash === null ? 'none' : user.totp === null ? 'set' : 'set, with a one-time code',
			],
			['Added', time(user.created_at, now)],
			['Last log-in', time(user.last_login_at, now)],
		]);
		const fields = html`${roleField(user.role)}${workspaceField(visit, user.workspace_id)}`;
		const forms =
			user.id === signedIn.user.id
				? html`<p>This is you. Another admin can change or remove you; your password and passkeys are in <a href="/account">your account</a>.</p>`
				: html`${section('Change', act({to: `/users/${user.id}`, label: 'Save', fields}))}
${section('Log-in', html`<p>A link logs ${user.email} in once, without password and code: for who has forgotten or lost them.</p>${act({to: `/users/${user.id}/link`, label: 'Make a link'})}`)}
${section('Remove', act({to: `/users/${user.id}/remove`, label: 'Remove the user', look: 'danger', typed: user.email}))}`;
		return {kind: 'page', place: 'users', title: user.email, problem, content: html`${said}${forms}`};
	}

	/** Null: all; undefined: there is no such workspace. An admin of one workspace gives others that one. */
	async function workspaceOf({form, signedIn}: Visit): Promise<string | null | undefined> {
		const own = signedIn.user.workspaceId;
		const given = form.get('workspace')?.trim() ?? '';
		return own ?? (given === everyWorkspace ? null : (await findWorkspace(reader, given))?.id);
	}

	/** For what admins may not do to themselves, so that they cannot lock themselves out. */
	async function other(visit: Visit): Promise<User> {
		const user = await found(visit);
		return user && user.id !== visit.signedIn.user.id
			? user
			: notFound('user', '', {page: 'There is no such user that you could change.'});
	}

	async function add(visit: Visit): Promise<Answer> {
		const {form, tools, request} = visit;
		const parsed = parseAddress((form.get('email') ?? '').trim(), {allowsUtf8Local: false});
		const [role, workspaceId] = [roleOf(form), await workspaceOf(visit)];
		if (!parsed.ok) {
			wrong(`The address ${parsed.problem}.`);
		}
		if (role === undefined || workspaceId === undefined) {
			wrong('Choose a role and a workspace.');
		}
		const {key: email} = parsed.address;
		const isVouched = visit.signedIn.user.workspaceId === null;
		const added = await change(trx => addUser(trx, tools, {email, role, workspaceId, isVouched}));
		return added ? linkPage(request, added) : wrong(`There is a user ${email} already.`);
	}

	async function update(visit: Visit): Promise<Answer> {
		const user = await other(visit);
		const [role, workspace_id] = [roleOf(visit.form), await workspaceOf(visit)];
		if (role === undefined || workspace_id === undefined) {
			wrong('Choose a role and a workspace.');
		}
		await change(trx => changeUser(trx, visit.tools, user.id, {role, workspace_id}));
		return go(`/users/${user.id}`, 'Saved. It holds at once.');
	}

	async function link(visit: Visit): Promise<Answer> {
		const user = await other(visit);
		const linked = (await change(trx => linkFor(trx, visit.tools, user))) ?? notFound('user', '');
		return linkPage(visit.request, linked);
	}

	async function remove(visit: Visit): Promise<Answer> {
		const user = await other(visit);
		checkTyped(visit, user.email, `Type ${user.email} to remove this user.`);
		await change(trx => removeUser(trx, visit.tools, user.id));
		return go('/users', `${user.email} is removed.`);
	}

	const [ofList, ofUser] = [pageForms(list), pageForms(show)];
	return [
		{method: 'GET', path: '/users', role: 'admin', answer: list},
		ofList('/users', 'admin', add, {fresh: true}),
		{method: 'GET', path: '/users/:id', role: 'admin', answer: show},
		ofUser('/users/:id', 'admin', update, {fresh: true}),
		ofUser('/users/:id/link', 'admin', link, {fresh: true}),
		ofUser('/users/:id/remove', 'admin', remove, {fresh: true}),
	];
}

function linkPage({protocol, host}: FastifyRequest, {user, token}: Linked): Page {
	const content = html`<p>This link logs ${user.email} (${user.role}) in once, within an hour. It is shown only now: give it to them over a way that you trust.</p>
<p>${copyable(`${protocol}://${host}/login/${token}`, 'the link')}</p>
<p><a href="/users">Back to the users</a></p>`;
	return {kind: 'page', place: 'users', title: 'A link to log in', content};
}

function userTable(rows: readonly ListedUser[], now: number): Html {
	return table({
		label: 'Users',
		rows,
		link: ({id}) => `/users/${id}`,
		empty: html`<p>No users yet.</p>`,
		columns: [
			{title: 'E-mail', cell: row => row.email, cut: true},
			{title: 'Role', cell: row => badge(row.role, row.role === 'admin' ? 'busy' : 'idle')},
			{title: 'Workspace', cell: row => (row.workspace === null ? 'all' : name(row.workspace)), cut: true},
			{title: 'Log-in', cell: logInOf, wide: true},
			{title: 'Last log-in', cell: row => time(row.last_login_at, now), right: true, wide: true},
		],
	});
}

function logInOf({passkeys, password_hash, totp}: ListedUser): string {
	const ways = [
		passkeys > 0 && 'passkey',
		password_hash !== null && (totp === null ? 'password' : 'password and code'),
	];
	return ways.filter(way => way !== false).join(', ') || 'link';
}

function roleField(value: Role): Html {
	const about = {viewer: 'looks', operator: 'acts on mail and lists', admin: 'changes everything'};
	const choices = roles.map(role => ({value: role, label: `${role}: ${about[role]}`}));
	return select({name: 'role', label: 'Role', value}, choices);
}

function workspaceField({signedIn, workspaces}: Visit, value: string | null): Html | null {
	if (signedIn.user.workspaceId !== null) {
		return null;
	}
	const all = {value: everyWorkspace, label: 'all'};
	if (workspaces.length > maxOffered) {
		const hint = 'the id of a workspace, or all';
		return input({name: 'workspace', label: 'Workspace', value: value ?? everyWorkspace, required: true, hint});
	}
	const choices = [all, ...workspaces.map(({id, name: label}) => ({value: id, label}))];
	return select({name: 'workspace', label: 'Workspace', value: value ?? everyWorkspace}, choices);
}

const roleOf = (form: URLSearchParams): Role | undefined => roles.find(role => role === form.get('role'));
