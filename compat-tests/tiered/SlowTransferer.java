import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import org.apache.kafka.server.log.remote.storage.Transferer;

/** Copies as LocalTieredStorage does, and waits after each file, so that its broker can be killed meanwhile. */
public class SlowTransferer implements Transferer {
    private static final long PAUSE_MS = 200;

    @Override
    public void transfer(File from, File to) throws IOException {
        if (from.exists()) {
            Files.copy(from.toPath(), to.toPath());
        }
        pause();
    }

    @Override
    public void transfer(ByteBuffer from, File to) throws IOException {
        if (from != null && from.hasRemaining()) {
            try (FileOutputStream stream = new FileOutputStream(to, false); FileChannel channel = stream.getChannel()) {
                channel.write(from);
            }
        }
        pause();
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
    }
}
