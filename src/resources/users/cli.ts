import {addFieldOptions} from '../../cli/field-options.ts';
import {logInLink} from '../../cli/init.ts';
import {address as parseAddress} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {isLoopback} from '../../config/derive.ts';
import type {Role} from '../../mail/operator.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {listFields} from '../fields.ts';
import {notFound} from '../operation.ts';
import {addUser, emailKey, everyWorkspace, type Linked, linkUser, removeUser} from './rules.ts';
import {findUserByEmail, type ListedUser, listUsers, type User} from './store.ts';

const roleField = listFields(addUser.input).filter(({name}) => name === 'role');

export function userCommands(user: CliCommand): void {
	addFieldOptions(
		user
			.verb('add <email>', 'Add a dashboard user and print a one-time sign-in link')
			.sample('mailctl user add ann@example.com --role operator --workspace shop'),
		roleField,
	).does<{role?: Role}, [string]>(async (session, {role}, text) => {
		const email = parseAddress(text).key;
		const workspace = (await session.chosenWorkspace())?.id ?? everyWorkspace;
		showLink(session, await session.performIn(null, addUser, {email, workspace, ...(role && {role})}));
	});

	user.verb('list', 'List dashboard users')
		.sample('mailctl user list')
		.does(async session => {
			const workspace = await session.chosenWorkspace();
			session.list(users, await listUsers(await session.reader(), workspace?.id));
		});

	user.verb('link <email>', 'Create a one-time sign-in link, which needs no password or one-time code')
		.sample('mailctl user link ann@example.com')
		.does<object, [string]>(async (session, _options, text) => {
			const {id} = await requireUser(session, text);
			showLink(session, await session.performIn(null, linkUser, {id}));
		});

	user.verb('remove <email>', 'Remove a user and end their sessions')
		.sample('mailctl user remove ann@example.com --yes')
		.yesOption()
		.does<{yes?: boolean}, [string]>(async (session, {yes}, text) => {
			const {id, email} = await requireUser(session, text);
			await session.confirm(`Remove the user ${email}?`, yes);
			await session.performIn(null, removeUser, {id});
			session.show({id, email, removed: true}, () => [`removed ${email}`]);
		});
}

async function requireUser(session: Session, text: string): Promise<User> {
	return (await findUserByEmail(await session.reader(), emailKey(text))) ?? notFound('user', text);
}

function showLink(session: Session, {user: {id, email, role}, token}: Linked): void {
	const settings = session.settings();
	const daemon = liveDaemon(settings.dataDir);
	const link = logInLink(settings, token, daemon?.admin ?? null);
	session.show({id, email, role, link}, () =>
		link === null
			? [
					`${email} is ${role}. No link is available because the dashboard is off (MAILCTL_DASHBOARD, MAILCTL_ADMIN_LISTEN).`,
				]
			: [
					`This link signs ${email} (${role}) in once, within an hour:`,
					'',
					session.terminal.bold(link),
					'',
					...(daemon === null ? ['Start the daemon first.'] : tunnelHint(new URL(link))),
				],
	);
}

/** Explains how a browser on another machine can reach a loopback listener. */
function tunnelHint({hostname, port}: URL): string[] {
	return isLoopback(hostname.replace(/^\[|\]$/g, ''))
		? [`From another machine, run this first: ssh -L ${port}:${hostname}:${port} HOST`]
		: [];
}

const users: Noun<ListedUser> = {
	none: 'no users; add one with mailctl user add',
	json: row => ({
		id: row.id,
		email: row.email,
		role: row.role,
		workspace: row.workspace_id,
		password: row.password_hash !== null,
		totp: row.totp !== null,
		passkeys: row.passkeys,
		created_at: row.created_at,
		last_login_at: row.last_login_at,
	}),
	fields: [
		{title: 'EMAIL', cell: row => row.email, cut: true},
		{title: 'ROLE', cell: row => row.role},
		{title: 'WORKSPACE', cell: row => row.workspace ?? 'all', cut: true},
		{title: 'SIGN-IN', cell: signInMethods},
		{title: 'LAST SIGN-IN', cell: row => shortTime(row.last_login_at).slice(0, 16)},
	],
};

/** Returns the methods by which a user can sign in. */
function signInMethods({password_hash, totp, passkeys}: ListedUser): string {
	const methods = [
		passkeys > 0 && 'passkey',
		password_hash !== null && (totp === null ? 'password' : 'password + code'),
	];
	return methods.filter(method => method !== false).join(', ') || 'link';
}
