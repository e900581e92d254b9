/** How an alert reaches an operator. */
export const alertChannels = ['mail', 'webhook', 'slack'] as const;
export type AlertChannel = (typeof alertChannels)[number];

const minute = 60_000;

type Kind = {
	/** The kind's name in lists and in the subject of alert messages. */
	readonly title: string;
	/** How long the condition must last before it is announced, in milliseconds. */
	readonly holdMs: number;
	/** Whether conditions of this kind belong to a workspace instead of the installation. */
	readonly isPerWorkspace: boolean;
};

const ofInstallation = (title: string, holdMs = 0): Kind => ({title, holdMs, isPerWorkspace: false});
const ofWorkspace = (title: string, holdMs = 0): Kind => ({title, holdMs, isPerWorkspace: true});

/** The problems that operators are alerted to. */
export const alertKinds = {
	blocklisted: ofInstallation('on a blocklist'),
	domain_failed: ofWorkspace('records of a domain are missing'),
	certificate: ofInstallation('a certificate expires soon, or cannot be used or renewed'),
	workspace_paused: ofWorkspace('a workspace is paused'),
	provider_blocks: ofInstallation('a provider blocks our address'),
	provider_refuses: ofInstallation('a provider refuses much of our mail because of our setup'),
	destination_failing: ofInstallation('a destination has accepted no mail for a while'),
	smarthost_refuses: ofInstallation('a relay refuses our mail'),
	smarthost_silent: ofWorkspace('a relay sends no events'),
	bounces_unread: ofInstallation('bounces are not being processed', 10 * minute),
	webhook_dead: ofWorkspace('a webhook endpoint accepts no events'),
	disk: ofInstallation('the disk is nearly full'),
	queue_old: ofInstallation('messages that are due are not being sent'),
	// A node that restarts is back within this time.
	node_lost: ofInstallation('a node is unreachable', minute),
	backup_old: ofInstallation('the last backup is old'),
	// A clock that is set back is noticed only once, so the alert cannot wait.
	clock: ofInstallation('the clock is wrong'),
	// Nodes are upgraded one after the other.
	version: ofInstallation('nodes run different versions', 60 * minute),
} as const satisfies Readonly<Record<string, Kind>>;

export type AlertKind = keyof typeof alertKinds;

export const alertKindNames = Object.keys(alertKinds) as readonly AlertKind[];

/** A current problem. */
export type Condition = {
	readonly kind: AlertKind;
	/** What the condition is about. Together with the kind it identifies the condition. */
	readonly subject: string;
	/** `null` if it belongs to the installation. */
	readonly workspaceId: string | null;
	/** What is wrong and how to fix it, as one clause each. */
	readonly detail: string;
	readonly fix: string;
};

/**
 * `began`: new conditions. `ended`: conditions that have cleared. `digest`: ongoing conditions, sent only by nodes
 * of the previous version. `test` and `confirm` (which asks an address for its consent) have no conditions.
 */
export type AlertEvent = 'began' | 'ended' | 'digest' | 'test' | 'confirm';

/** The content of one alert. */
export type AlertMessage = {
	/** `alm_…`, the same in every attempt. */
	readonly id: string;
	readonly event: AlertEvent;
	/** RFC 3339. */
	readonly at: string;
	readonly conditions: ReadonlyArray<Condition & {/** RFC 3339. */ readonly since: string}>;
	/** The link for `confirm`. It is created when the alert is sent, and never stored. */
	readonly link?: string;
};
