/** How an alert reaches its operator. */
export const alertWays = ['mail', 'webhook', 'slack'] as const;
export type AlertWay = (typeof alertWays)[number];

const minute = 60_000;

type Kind = {
	/** How the kind is called in a list and in the subject of a message. */
	readonly title: string;
	/** How long it must last before it is announced, milliseconds. */
	readonly holdMs: number;
	/** A workspace has conditions of this kind; others belong to the installation. */
	readonly ofWorkspace: boolean;
};

const own = (title: string, holdMs = 0): Kind => ({title, holdMs, ofWorkspace: false});
const workspaces = (title: string, holdMs = 0): Kind => ({title, holdMs, ofWorkspace: true});

/** What an operator has to know of without looking. */
export const alertKinds = {
	blocklisted: own('on a blocklist'),
	domain_failed: workspaces('records of a domain are missing'),
	certificate: own('a certificate ends soon, or cannot be used or renewed'),
	workspace_paused: workspaces('a workspace is paused'),
	provider_blocks: own('a provider blocks our address'),
	smarthost_refuses: own('a smarthost refuses us'),
	smarthost_silent: workspaces('a smarthost posts no events'),
	bounces_unread: own('bounces are not read', 10 * minute),
	webhook_dead: workspaces('an endpoint takes no events'),
	disk: own('the disk is nearly full'),
	queue_old: own('mail waits though it is due'),
	// A node that restarts is there again before this.
	node_lost: own('a node is gone', minute),
	backup_old: own('the last backup is old'),
	// A step back is seen once.
	clock: own('the clock is wrong'),
	// Nodes are updated one after the other.
	version: own('nodes run different versions', 60 * minute),
} as const satisfies Readonly<Record<string, Kind>>;

export type AlertKind = keyof typeof alertKinds;

export const alertKindNames = Object.keys(alertKinds) as readonly AlertKind[];

/** Something that is wrong now. */
export type Condition = {
	readonly kind: AlertKind;
	/** What it is about; with the kind it names the condition. */
	readonly subject: string;
	/** Null: it is the installation's. */
	readonly workspaceId: string | null;
	/** What is wrong, and how to fix it: a clause each. */
	readonly detail: string;
	readonly fix: string;
};

/**
 * `began`: conditions that are wrong from now on; `ended`: they are right again; `digest`, by nodes of the version
 * before: they last. `test` and `confirm`, which asks an address whether it agrees, have none.
 */
export type AlertEvent = 'began' | 'ended' | 'digest' | 'test' | 'confirm';

/** What an alert says at once. */
export type AlertMessage = {
	/** `alm_…`, the same at every try. */
	readonly id: string;
	readonly event: AlertEvent;
	/** RFC 3339. */
	readonly at: string;
	readonly conditions: ReadonlyArray<Condition & {/** RFC 3339. */ readonly since: string}>;
	/** The link of `confirm`; created when it is sent, and never stored. */
	readonly link?: string;
};
