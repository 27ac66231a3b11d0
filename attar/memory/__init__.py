"""What a document becomes: a memory, its algebra and its bytes. numpy only, no torch."""
