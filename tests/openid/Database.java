import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

/** The database of the suite, in memory: java -cp 'JARS/*' Database.java PORT */
class Database {
    public static void main(String[] arguments) throws InterruptedException {
        ServerVersion[] versions = ServerVersion.values();
        MemoryBackend memory = new MemoryBackend();
        memory.version(versions[versions.length - 1]);
        new MongoServer(memory).bind("127.0.0.1", Integer.parseInt(arguments[0]));
        Thread.currentThread().join();
    }
}
