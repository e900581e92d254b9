/** The environment's name for the tests that run: `quick` (npm test) or `slow`; unset: those that are named. */
export const stageVariable = 'TEST_STAGE';

/**
 * Tasks of people in the dashboard, by the file of `test/dashboard/journeys` that walks them: once by mouse, and once
 * by keyboard alone (Tab, Enter, Space, arrows, `/`, `j`, `g` and a letter). `npm test` leaves the keyboard to the slow
 * tests.
 */
export const journeys = {
	people: [
		'a user opens a link, sets a password, and signs in with it',
		'a user signs out all other sessions',
		'an admin adds a user and changes their role',
		'a viewer visits every page and finds nothing to change',
	],
	workspaces: [
		'a user of one workspace sees nothing of another',
		'a user switches to another workspace',
		'an admin pauses a workspace, its messages are refused, and resumes it',
		'an admin creates, rotates and revokes a key',
	],
	messages: [
		'a user opens and views a captured message',
		'a user finds an order by its number',
		'a user finds out why a message waits, and releases it',
		'a user finds a scheduled message, reschedules it, and cancels it',
		'a user finds a bounce and how it was classified',
		'a user has a returned message explained',
	],
	templates: [
		'a user edits a template beside its preview, and rolls it back',
		'a user compares two versions of a template',
		'a user creates and selects a layout, and reviews a change before saving it',
		'a user marks a variable as sensitive, and a message no longer shows it',
	],
	recipients: [
		'a user imports a list of 100,000 addresses, finds one and removes it',
		'a user exports suppressions',
		'a user creates a default topic, and unsubscribing stops only that topic',
		'a recipient chooses topics through a link, and their contact shows the choice',
	],
	domains: [
		'a user adds a domain and watches its DNS turn green',
		'a user sees who sends as the domain, and copies the next policy',
	],
	smarthosts: ['a user creates a provider URL, a bounce arrives, and the URL is renewed and removed'],
	received: ['a user adds an address, reads a received message and its file, and deletes it'],
	webhooks: ['a user replays webhooks after an outage', 'a user adds and tests an endpoint'],
} as const;

export type JourneyFile = keyof typeof journeys;
export type JourneyTitle<File extends JourneyFile> = (typeof journeys)[File][number];
