/** The native part of the sqlite3 package is missing or was built for another system. */
class DriverError extends Error {
	override readonly name = 'DriverError';
	readonly code = 'SQLITE_DRIVER';
}

/** The driver: native code, which may be there and yet not load. Throws DriverError with the loader's reason. */
export async function loadSqlite() {
	try {
		const {default: sqlite3} = await import('sqlite3');
		return sqlite3;
	} catch (error) {
		// The first line says what is wrong; the others list where it was looked for.
		const [reason = ''] = (error as Error).message.split('\n');
		throw new DriverError(reason.replace(/\.? Tried:$/, ''), {cause: error});
	}
}
